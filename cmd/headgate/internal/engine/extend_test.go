package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// partlyFailingStore is a store that cannot extend holds of some keys. It counts the
// calls that extend.
type partlyFailingStore struct {
	*memstore.Store
	fails          func(key string) bool
	mu             sync.Mutex
	calls, longest int // number of calls, and maximum number of ops of one
}

func (s *partlyFailingStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if verb == headgate.ExtendHold {
		s.mu.Lock()
		s.calls, s.longest = s.calls+1, max(s.longest, len(ops))
		s.mu.Unlock()
		if slices.ContainsFunc(ops, func(op headgate.HoldOp) bool { return s.fails(op.Key) }) {
			return 0, &headgate.StoreError{Reason: headgate.ReasonUnreachable, Err: fmt.Errorf("connection refused")}
		}
	}
	return s.Store.ApplyHolds(ctx, now, verb, ttl, ops, results)
}

// Many holds are extended with several calls of the store, also those in shadow mode. If
// a call fails, the others have an effect.
func TestExtendManyHolds(t *testing.T) {
	t.Parallel()
	for name, percent := range map[string]engine.Percent{"enforced": 0, "shadow": engine.All} {
		store := &partlyFailingStore{Store: memstore.New(nil), fails: func(key string) bool { return key == "key 90" }}
		e, err := engine.New(store, &engine.Options{
			Policies:      map[string]headgate.Policy{"p": headgate.MustPolicy("100/1h", "100/1d", "10 concurrent")},
			PolicyOptions: map[string]engine.PolicyOptions{"p": {Shadow: percent}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var holds []engine.ClientHold
		for i := range 200 {
			h, _ := mustHold(t, e, start, time.Minute, engine.Check{Policy: "p", Key: fmt.Sprint("key ", i), Cost: 1})
			holds = append(holds, h)
		}
		var a engine.Answer
		if err := e.ActiveConfig().Extend(t.Context(), start, time.Hour, holds, &a); err != nil {
			t.Fatal(err)
		}
		if store.calls != 3 || store.longest != 255 {
			t.Errorf("%s: got %d calls of at most %d limits want 3 of 255", name, store.calls, store.longest)
		}
		for i, h := range holds {
			failed := name == "enforced" && i >= 85 && i < 170
			if (h.Err != nil) != failed || failed && h.ErrorName() != "unavailable" || (h.Expires == start+3600*second) == failed {
				t.Errorf("%s, hold %d: got deadline %v, error %v; want an error: %v", name, i, h.Expires.Time(), h.Err, failed)
			}
			result := a.AppendResults(nil)[i]
			if got := result.Degraded != headgate.ReasonNone; got != (i >= 85 && i < 170) {
				t.Errorf("%s, result %d: got degraded %v", name, i, got)
			}
		}
		store.fails = func(string) bool { return true }
		if err := e.ActiveConfig().Extend(t.Context(), start, time.Hour, holds, &a); name == "enforced" && engine.ErrorKindOf(err) != engine.StoreFailure {
			t.Errorf("%s, no call succeeds: got %v want a store failure", name, err)
		}
	}
}

// The number of checks of all holds in one request is bounded. One hold of a route can
// always be extended.
func TestMaxExtendChecks(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, &engine.Options{MaxChecks: 2, MaxExtendChecks: 1})
	h, _ := mustHold(t, e, start, time.Minute, inline("k", "5/1h"), inline("l", "5/1h"))
	other, _ := mustHold(t, e, start, time.Minute, inline("k", "5/1h"))
	var a engine.Answer
	if err := e.ActiveConfig().Extend(t.Context(), start, time.Hour, []engine.ClientHold{h}, &a); err != nil {
		t.Errorf("one hold: %v", err)
	}
	err := e.ActiveConfig().Extend(t.Context(), start, time.Hour, []engine.ClientHold{h, other}, &a)
	const want = "the 2 holds have 3 checks; must be at most 2 (max_extend_checks); extend fewer holds with each request"
	if engine.ErrorKindOf(err) != engine.InvalidRequest || !strings.Contains(engine.Reason(err), want) {
		t.Errorf("two holds: got %v want %s", err, want)
	}
}
