package headgate_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

// noon is an instant at which tests begin: a whole number of days since the epoch and a
// half.
const noon = headgate.Instant(1_767_268_800_000_000)

func newLimiter(t *testing.T, store headgate.Store, name string, o headgate.Observer, limits ...string) *headgate.Limiter {
	t.Helper()
	p := headgate.MustPolicy(limits...)
	p.Name = name
	l, err := headgate.New(store, p, &headgate.Options{Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newAlgorithmLimiter decides by one limit in a store of its own.
func newAlgorithmLimiter(t *testing.T, store headgate.Store, a headgate.Algorithm, limits ...string) *headgate.Limiter {
	t.Helper()
	p := headgate.MustPolicy(limits...)
	p.Name, p.Algorithm = "waiting", a
	l, err := headgate.New(store, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// waiters starts waiters one after another and records when and
// how each was served.
type waiters struct {
	limiter *headgate.Limiter
	began   time.Time
	all     sync.WaitGroup

	mu     sync.Mutex
	order  []int
	served []time.Duration
	errs   map[int]error
}

// newWaiters returns waiters on l; join adds one.
func newWaiters(l *headgate.Limiter) *waiters {
	return &waiters{limiter: l, began: time.Now(), errs: make(map[int]error)}
}

// join starts waiter i and returns when it is queued.
func (c *waiters) join(ctx context.Context, i int, cost int64) {
	c.all.Go(func() {
		err := c.limiter.WaitN(ctx, "key", cost)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.errs[i] = err
			return
		}
		c.order = append(c.order, i)
		c.served = append(c.served, time.Since(c.began))
	})
	synctest.Wait()
}

// err returns the error of waiter i, if any, once all goroutines are blocked.
func (c *waiters) err(i int) error {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errs[i]
}

func mustAllow(t *testing.T, l *headgate.Limiter, key string, cost int64) {
	t.Helper()
	if d, err := l.AllowN(t.Context(), key, cost); err != nil || !d.Allowed {
		t.Fatalf("allow %d: got %+v, error %v want allowed", cost, d, err)
	}
}

// eventRecorder is an observer that records its events.
type eventRecorder struct {
	mu     sync.Mutex
	events []headgate.Event
}

func (n *eventRecorder) Observe(e headgate.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
}

func (n *eventRecorder) take() []headgate.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	events := n.events
	n.events = nil
	return events
}

// countingStore counts the calls on keys and makes some of them slow.
type countingStore struct {
	headgate.Store
	calls atomic.Int64
	slow  map[string]time.Duration // constant

	slowSpacing time.Duration
}

type countingBound struct {
	headgate.Bound
	store *countingStore
}

func (s *countingStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return &countingBound{b, s}, err
}

func (b *countingBound) countCall(key string) {
	b.store.calls.Add(1)
	time.Sleep(b.store.slow[key])
}

func (b *countingBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	b.countCall(key)
	return b.Bound.Apply(ctx, now, key, v, cost)
}

func (b *countingBound) Reserve(ctx context.Context, now headgate.Instant, key string, cost int64, longest time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	b.countCall(key)
	return b.Bound.Reserve(ctx, now, key, cost, longest)
}

func (b *countingBound) Spacing(cost int64) time.Duration {
	time.Sleep(b.store.slowSpacing)
	return b.Bound.Spacing(cost)
}
