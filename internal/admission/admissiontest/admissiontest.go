// Package admissiontest checks that all packages that limit requests decide, delay and
// release in the same way. It has one table of scenarios, which the tests of each
// package run. Use it only in tests.
package admissiontest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
)

// Address is the client's address in every request, and the key of the budget.
const Address = "203.0.113.9"

// Caller describes a package that limits requests.
type Caller struct {
	// New returns a function that sends one request from the client at [Address], under
	// all policies. The function blocks until the request may proceed, and then returns
	// nil. Each request must be sent as if from another process, so that the package
	// cannot order the requests among themselves.
	New func(t *testing.T, store headgate.Store, policies ...headgate.Policy) func(ctx context.Context) error
	// OnePolicy is true if a request to the package can have only one policy.
	OnePolicy bool
	// OneByOne is true if the package charges the policies one after another.
	OneByOne bool
}

// outage is a memory store that can be made unavailable.
type outage struct {
	*memstore.Store
	down atomic.Bool
}

type outageBound struct {
	headgate.Bound
	store *outage
}

func (s *outage) err() error {
	if s.down.Load() {
		return &headgate.StoreError{Store: "test", Reason: headgate.ReasonUnreachable, Err: errors.New("down")}
	}
	return nil
}

func (s *outage) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return &outageBound{b, s}, err
}

func (s *outage) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, d []headgate.Decision) error {
	if err := s.err(); err != nil {
		return err
	}
	inner := make([]headgate.Op, len(ops))
	for i, op := range ops {
		inner[i] = headgate.Op{Bound: op.Bound.(*outageBound).Bound, Key: op.Key, Cost: op.Cost}
	}
	return s.Store.ApplyAll(ctx, now, inner, peek, d)
}

func (s *outage) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, r []headgate.HoldResult,
) (headgate.Instant, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	inner := slices.Clone(ops)
	for i, op := range ops {
		inner[i].Bound = op.Bound.(*outageBound).Bound
	}
	return s.Store.ApplyHolds(ctx, now, verb, ttl, inner, r)
}

func (b *outageBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if err := b.store.err(); err != nil {
		return headgate.Decision{}, err
	}
	return b.Bound.Apply(ctx, now, key, v, cost)
}

func (b *outageBound) Reserve(
	ctx context.Context, now headgate.Instant, key string, cost int64, longest time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	if err := b.store.err(); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	return b.Bound.Reserve(ctx, now, key, cost, longest)
}

func (b *outageBound) Cancel(
	ctx context.Context, now headgate.Instant, key string, cost int64, m headgate.ReservationToken,
) (headgate.Decision, error) {
	if err := b.store.err(); err != nil {
		return headgate.Decision{}, err
	}
	return b.Bound.Cancel(ctx, now, key, cost, m)
}

// Run tests the package that c describes with all scenarios of the table. It skips
// scenarios that need several policies, or one operation for all of them, if the
// package does not support that.
func Run(t *testing.T, c Caller) {
	t.Helper()
	all, err := scenarios()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if c.OnePolicy && len(s.policies) > 1 || c.OneByOne && s.together {
			continue
		}
		t.Run(s.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { s.run(t, c) }) })
	}
}

// run runs one scenario.
func (s *scenario) run(t *testing.T, c Caller) {
	inner := &outage{Store: memstore.New(nil)}
	store := s.open(t, inner)
	defer func() { _ = store.Close() }()
	send := c.New(t, store, s.policies...)
	began := time.Now()
	if s.up > 0 {
		time.AfterFunc(s.down, func() { inner.down.Store(true) })
		time.AfterFunc(s.up, func() { inner.down.Store(false) })
	}
	ahead := make([]chan time.Duration, len(s.requests))
	for i, r := range s.requests {
		time.Sleep(time.Until(began.Add(r.arrives)))
		synctest.Wait() // wait until all events of this instant have been handled
		ahead[i] = make(chan time.Duration, 1)
		go func() { ahead[i] <- r.send(t, began, send) }()
		synctest.Wait() // wait until the request was charged, so that it precedes the next one
	}
	time.Sleep(500 * time.Millisecond)
	synctest.Wait()
	s.compareLeft(t, store, c.OneByOne)
	for i, r := range s.requests {
		if got := <-ahead[i]; got != r.ahead {
			t.Errorf("request %d: goes ahead at %v want %v (%v: never)", i+1, got, r.ahead, never)
		}
	}
}

// open returns the store for the scenario.
func (s *scenario) open(t *testing.T, inner headgate.Store) headgate.Store {
	t.Helper()
	if s.mode == "" {
		return inner
	}
	store, err := fallback.New(inner, &fallback.Options{Local: memstore.New(nil), Instances: 2})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// send sends the request and returns the time, since began, at which it could proceed.
func (r request) send(t *testing.T, began time.Time, send func(context.Context) error) time.Duration {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if r.leaves > 0 {
		time.AfterFunc(time.Until(began.Add(r.leaves)), cancel)
	}
	if r.deadline > 0 {
		var done context.CancelFunc
		ctx, done = context.WithDeadline(ctx, began.Add(r.deadline))
		defer done()
	}
	if send(ctx) != nil {
		return never
	}
	return time.Since(began).Round(time.Millisecond)
}

// compareLeft compares the remaining units of each policy with the expected number.
func (s *scenario) compareLeft(t *testing.T, store headgate.Store, oneByOne bool) {
	left := s.left
	if !oneByOne && s.stay != nil {
		left = s.stay
	}
	for i, want := range left {
		l, err := headgate.New(store, s.policies[i], nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.PeekN(t.Context(), Address, 0); err != nil || d.Remaining != want {
			t.Errorf("left under %q: got %d, error %v want %d", s.policies[i].Name, d.Remaining, err, want)
		}
	}
}
