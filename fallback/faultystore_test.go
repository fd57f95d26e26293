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

// faultyStore is a memory store with an optional fault. If the fault returns an error,
// the call fails with it.
type faultyStore struct {
	*memstore.Store
	fault atomic.Pointer[func(ctx context.Context, key string) error]
	calls atomic.Int64 // calls of the store

	readOnly     atomic.Bool // peeks succeed, takes fail
	losesReplies atomic.Bool // operations of holds are executed and then fail
}

func newFaultyStore() *faultyStore { return &faultyStore{Store: memstore.New(nil)} }

func (f *faultyStore) set(fault func(ctx context.Context, key string) error) { f.fault.Store(&fault) }

func (f *faultyStore) clearFault() { f.fault.Store(nil) }

func (f *faultyStore) checkFault(ctx context.Context, key string) error {
	f.calls.Add(1)
	if fault := f.fault.Load(); fault != nil {
		return (*fault)(ctx, key)
	}
	return nil
}

func (f *faultyStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if !rule.OnStoreError.Closed() {
		return nil, headgate.ErrUnsupported // like a store that is reached over a network
	}
	b, err := f.Store.Bind(rule)
	if err != nil {
		return nil, err
	}
	return &faultyBound{b, f}, nil
}

func (f *faultyStore) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	for _, op := range ops {
		if err := f.checkFault(ctx, op.Key); err != nil {
			return err
		}
	}
	bare := slices.Clone(ops)
	for i := range bare {
		bare[i].Bound = bare[i].Bound.(*faultyBound).Bound
	}
	return f.Store.ApplyAll(ctx, now, bare, peek, decisions)
}

type faultyBound struct {
	headgate.Bound
	store *faultyStore
}

func (b *faultyBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if err := b.store.checkFault(ctx, key); err != nil {
		return headgate.Decision{}, err
	}
	if b.store.readOnly.Load() && v != headgate.Peek {
		return headgate.Decision{}, failWith(headgate.ReasonRefused)(ctx, key)
	}
	return b.Bound.Apply(ctx, now, key, v, cost)
}

func (b *faultyBound) Reserve(ctx context.Context, now headgate.Instant, key string, cost int64, most time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	if b.CanReserve() {
		if err := b.store.checkFault(ctx, key); err != nil {
			return headgate.Decision{}, headgate.ReservationToken{}, err
		}
	}
	return b.Bound.Reserve(ctx, now, key, cost, most)
}

func (b *faultyBound) Cancel(ctx context.Context, now headgate.Instant, key string, cost int64, token headgate.ReservationToken) (headgate.Decision, error) {
	if b.CanReserve() {
		if err := b.store.checkFault(ctx, key); err != nil {
			return headgate.Decision{}, err
		}
	}
	return b.Bound.Cancel(ctx, now, key, cost, token)
}

// failWith returns a fault that fails every call immediately.
func failWith(t headgate.StoreErrorReason) func(context.Context, string) error {
	err := &headgate.StoreError{Store: "faulty", Reason: t, Advice: "wait"}
	return func(context.Context, string) error { return err }
}

// hangs simulates a server that does not reply, like a stopped process.
func hangs(ctx context.Context, _ string) error {
	<-ctx.Done()
	return &headgate.StoreError{Store: "faulty", Reason: headgate.ReasonTimedOut, Err: ctx.Err()}
}

// eventRecorder records the events that an observer receives.
type eventRecorder struct {
	mu     sync.Mutex
	events []headgate.StoreEvent
}

func (h *eventRecorder) ObserveStore(e headgate.StoreEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// names returns “unavailable: reason” or “recovered” for each event so far.
func (h *eventRecorder) names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for _, e := range h.events {
		if e.Unavailable {
			names = append(names, "unavailable: "+e.Reason.String())
		} else {
			names = append(names, "recovered")
		}
	}
	return names
}

// nodes returns the node of each event so far.
func (h *eventRecorder) nodes() (nodes []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		nodes = append(nodes, e.Node)
	}
	return nodes
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

func (f *faultyStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (at headgate.Instant, err error) {
	bare := slices.Clone(ops)
	for i, op := range ops {
		if err := f.checkFault(ctx, op.Key); err != nil {
			return 0, err
		}
		bare[i].Bound = op.Bound.(*faultyBound).Bound
	}
	at, err = f.Store.ApplyHolds(ctx, now, verb, ttl, bare, results)
	if f.losesReplies.Load() && err == nil {
		err = &headgate.StoreError{Store: "faulty", Reason: headgate.ReasonTimedOut}
	}
	return at, err
}
