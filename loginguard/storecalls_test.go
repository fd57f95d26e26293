package loginguard_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// recordingStore is an in-memory store that records its calls, with the lengths of keys.
type recordingStore struct {
	*memstore.Store
	mu    sync.Mutex
	calls []string
}

type recordingBound struct {
	headgate.Bound
	store *recordingStore
	name  string
}

func (s *recordingStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return &recordingBound{b, s, rule.Name}, err
}

func (s *recordingStore) note(what ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprint(what...))
}

func (s *recordingStore) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, d []headgate.Decision) error {
	inner := slices.Clone(ops)
	for i, op := range ops {
		b := op.Bound.(*recordingBound)
		s.note("all ", b.name, " ", len(op.Key))
		inner[i].Bound = b.Bound
	}
	return s.Store.ApplyAll(ctx, now, inner, peek, d)
}

func (s *recordingStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, r []headgate.HoldResult,
) (headgate.Instant, error) {
	inner := slices.Clone(ops)
	for i, op := range ops {
		b := op.Bound.(*recordingBound)
		s.note("holds ", verb, " ", b.name, " ", len(op.Key))
		inner[i].Bound = b.Bound
	}
	return s.Store.ApplyHolds(ctx, now, verb, ttl, inner, r)
}

func (b *recordingBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, n int64) (headgate.Decision, error) {
	b.store.note(v, " ", b.name, " ", len(key))
	return b.Bound.Apply(ctx, now, key, v, n)
}

// The store calls, and so the time, of an unknown client are the same for existing and
// unknown accounts, for each guess.
func TestStoreCallsDoNotRevealAccounts(t *testing.T) {
	t.Parallel()
	asked := func(owner bool) []string {
		s := &recordingStore{Store: memstore.New(nil)}
		g := mustNew(t, s, nil)
		if owner {
			mustSucceed(t, noon, mustAttempt(t, g, noon, loginguard.Client{Addr: host(9, 9), Account: "bob"}))
			s.calls = nil
		}
		for n := range 40 {
			mustAttempt(t, g, noon, loginguard.Client{Addr: host(n%10, 1), Account: "bob"}).Failed()
		}
		return s.calls
	}
	existing, unknown := asked(true), asked(false)
	if !reflect.DeepEqual(existing, unknown) {
		t.Errorf("existing %q\nunknown %q", existing, unknown)
	}
	if want := 40 * (1 + 11 + 6 + 2 + 2); len(unknown) != want {
		t.Errorf("40 attempts make %d calls; want %d: one for the known pair, 21 for limits", len(unknown), want)
	}
}

// A failure takes a store call only under a limit that allows more than 1,000 attempts in
// a minute.
func TestStoreCallsOfFailure(t *testing.T) {
	t.Parallel()
	for total, want := range map[string][]string{"1000/24h": nil, "1001/24h": {"holds commit login/total/0 0"}} {
		s := &recordingStore{Store: memstore.New(nil)}
		g := mustNew(t, s, &loginguard.Options{Limits: loginguard.Limits{Total: headgate.MustPolicy(total).Limits}})
		a := mustAttempt(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: "bob"})
		s.calls = nil
		a.Failed()
		a.Failed() // does nothing
		if !slices.Equal(s.calls, want) {
			t.Errorf("total %s: a failure makes the calls %q; want %q", total, s.calls, want)
		}
	}
}

// BenchmarkAttempt measures what a guard adds to a login that fails or succeeds.
func BenchmarkAttempt(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchmarkAttempts(b, memstore.New(nil)) })
	b.Run("redis", func(b *testing.B) {
		store := mustOpenRedis(b, testserver.Redis(b))
		defer store.Close()
		benchmarkAttempts(b, store)
	})
}

func benchmarkAttempts(b *testing.B, store headgate.Store) {
	g := mustNew(b, store, nil)
	b.Run("failure", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			mustAttempt(b, g, headgate.StoreClock, loginguard.Client{Addr: host(n, 1), Account: name(n)}).Failed()
		}
	})
	b.Run("success", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			a := mustAttempt(b, g, headgate.StoreClock, loginguard.Client{Addr: host(n, 1), Account: name(-n)})
			if err := a.Succeeded(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
