package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// remote is a memory store that can become unavailable, like a networked one. It records
// the rules that it bound.
type remote struct {
	*memstore.Store
	away  *headgate.StoreError
	rules []headgate.Rule
}

func (s *remote) Bind(r headgate.Rule) (headgate.Bound, error) {
	if r.OnStoreError == headgate.FailLocal {
		return nil, headgate.ErrUnsupported
	}
	s.rules = append(s.rules, r)
	b, err := s.Store.Bind(r)
	return remoteBound{b, s, r.OnStoreError}, err
}

type remoteBound struct {
	headgate.Bound
	store *remote
	mode  headgate.OnStoreError
}

func (b remoteBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	switch {
	case b.store.away == nil:
		return b.Bound.Apply(ctx, now, key, v, cost)
	case b.mode == headgate.FailOpen:
		return headgate.Decision{Allowed: true, Degraded: b.store.away.Reason}, nil
	default:
		return headgate.Decision{}, b.store.away
	}
}

// Health reports an unavailable store also if checks fail open, and writes nothing.
func TestHealth(t *testing.T) {
	t.Parallel()
	for _, mode := range []headgate.OnStoreError{"", headgate.FailClosed, headgate.FailOpen} {
		store := &remote{Store: memstore.New(nil)}
		e, err := engine.New(store, &engine.Options{OnStoreError: mode})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Health(t.Context()); err != nil || store.Stats().Keys != 0 {
			t.Errorf("%q, a store that is well: got error %v, %d keys want neither", mode, err, store.Stats().Keys)
		}
		store.away = &headgate.StoreError{Store: "remote", Reason: headgate.ReasonTimedOut}
		if err := e.Health(t.Context()); !errors.Is(err, headgate.ErrStoreUnavailable) {
			t.Errorf("%q, unavailable store: got error %v, want that of the store", mode, err)
		}
		store.away = nil
		_ = store.Close()
		if err := e.Health(t.Context()); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("%q, a store that is closed: got error %v want ErrClosed", mode, err)
		}
	}
}

// Options.OnStoreError applies to checks without a policy; a policy has its own.
func TestInlineOnStoreError(t *testing.T) {
	t.Parallel()
	store := &remote{Store: memstore.New(nil)}
	e, err := engine.New(store, &engine.Options{
		OnStoreError: headgate.FailOpen,
		Policies:     map[string]headgate.Policy{"login": headgate.MustPolicy("5/1m")},
	})
	if err != nil {
		t.Fatal(err)
	}
	store.away = &headgate.StoreError{Store: "remote", Reason: headgate.ReasonUnreachable}
	var a engine.Answer
	if err := e.Decide(t.Context(), headgate.Take, []engine.Check{inline("k", "1/1h")}, &a); err != nil || !a.Allowed || a.Degraded != headgate.ReasonUnreachable {
		t.Errorf("a check that brings its own limit: got %+v, error %v want admitted and degraded", a.Decision, err)
	}
	err = e.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: "login", Key: "k", Cost: 1}}, &a)
	if !errors.Is(err, headgate.ErrStoreUnavailable) || engine.ErrorKindOf(err) != engine.StoreFailure {
		t.Errorf("a policy without OnStoreError: got error %v, want that of the store", err)
	}
}

func TestUnsupportedOnStoreError(t *testing.T) {
	t.Parallel()
	if _, err := engine.New(&remote{Store: memstore.New(nil)}, &engine.Options{OnStoreError: headgate.FailLocal}); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("got error %v want ErrUnsupported", err)
	}
}
