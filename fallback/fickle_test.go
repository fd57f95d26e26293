package fallback_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// fickle is a memory store with an optional fault, which then answers instead.
type fickle struct {
	*memstore.Store
	fault atomic.Pointer[func(ctx context.Context, key string) error]
	asked atomic.Int64 // how often it was

	readOnly atomic.Bool // it answers a peek and refuses a take
}

func newFickle() *fickle { return &fickle{Store: memstore.New(nil)} }

func (f *fickle) set(fault func(ctx context.Context, key string) error) { f.fault.Store(&fault) }

func (f *fickle) heal() { f.fault.Store(nil) }

func (f *fickle) ask(ctx context.Context, key string) error {
	f.asked.Add(1)
	if fault := f.fault.Load(); fault != nil {
		return (*fault)(ctx, key)
	}
	return nil
}

func (f *fickle) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if !rule.OnStoreError.Closed() {
		return nil, headgate.ErrUnsupported // as a store that is asked over a network
	}
	b, err := f.Store.Bind(rule)
	if err != nil {
		return nil, err
	}
	return &fickleBound{b, f}, nil
}

func (f *fickle) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	for _, op := range ops {
		if err := f.ask(ctx, op.Key); err != nil {
			return err
		}
	}
	bare := slices.Clone(ops)
	for i := range bare {
		bare[i].Bound = bare[i].Bound.(*fickleBound).Bound
	}
	return f.Store.ApplyAll(ctx, now, bare, peek, decisions)
}

type fickleBound struct {
	headgate.Bound
	store *fickle
}

func (b *fickleBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if err := b.store.ask(ctx, key); err != nil {
		return headgate.Decision{}, err
	}
	if b.store.readOnly.Load() && v != headgate.Peek {
		return headgate.Decision{}, failWith(headgate.ReasonRefused)(ctx, key)
	}
	return b.Bound.Apply(ctx, now, key, v, cost)
}

func (b *fickleBound) Reserve(ctx context.Context, now headgate.Instant, key string, cost int64, most time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	if b.CanReserve() {
		if err := b.store.ask(ctx, key); err != nil {
			return headgate.Decision{}, headgate.ReservationToken{}, err
		}
	}
	return b.Bound.Reserve(ctx, now, key, cost, most)
}

func (b *fickleBound) Cancel(ctx context.Context, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken) (headgate.Decision, error) {
	if b.CanReserve() {
		if err := b.store.ask(ctx, key); err != nil {
			return headgate.Decision{}, err
		}
	}
	return b.Bound.Cancel(ctx, now, key, cost, mark)
}

// failWith returns a function that fails immediately with the given reason.
func failWith(t headgate.StoreErrorReason) func(context.Context, string) error {
	err := &headgate.StoreError{Store: "fickle", Reason: t, Advice: "wait"}
	return func(context.Context, string) error { return err }
}

// hangs is a server that does not reply, like a stopped process.
func hangs(ctx context.Context, _ string) error {
	<-ctx.Done()
	return &headgate.StoreError{Store: "fickle", Reason: headgate.ReasonTimedOut, Err: ctx.Err()}
}

// eventRecorder is an observer that records its events.
type eventRecorder struct {
	mu     sync.Mutex
	events []headgate.StoreEvent
}

func (h *eventRecorder) ObserveStore(e headgate.StoreEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// names returns “unavailable” with the reason, or “recovered”, for each event so far.
func (h *eventRecorder) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	for _, e := range h.events {
		if e.Unavailable {
			list = append(list, "unavailable: "+e.Reason.String())
		} else {
			list = append(list, "recovered")
		}
	}
	return list
}

// limiter returns a limiter with one limit and the given failure mode.
func limiter(t testing.TB, s headgate.Store, a headgate.Algorithm, limit string, mode headgate.OnStoreError) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(s, headgate.Policy{
		Name: "p", Limits: []headgate.Limit{headgate.MustParseLimit(limit)}, Algorithm: a, OnStoreError: mode,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
