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

// limiterOver decides by one limit in a store of its own.
func limiterOver(t *testing.T, store headgate.Store, a headgate.Algorithm, limits ...string) *headgate.Limiter {
	t.Helper()
	p := headgate.MustPolicy(limits...)
	p.Name, p.Algorithm = "waiting", a
	l, err := headgate.New(store, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// crowd starts waiters one after another and notes when each was served, and how.
type crowd struct {
	limiter *headgate.Limiter
	began   time.Time
	all     sync.WaitGroup

	mu     sync.Mutex
	order  []int
	served []time.Duration
	errs   map[int]error
}

func newCrowd(l *headgate.Limiter) *crowd {
	return &crowd{limiter: l, began: time.Now(), errs: make(map[int]error)}
}

// join starts waiter i and returns when it is queued.
func (c *crowd) join(ctx context.Context, i int, cost int64) {
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

// err is how waiter i ended so far, once all have done what they can.
func (c *crowd) err(i int) error {
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

// notes is an observer that remembers.
type notes struct {
	mu     sync.Mutex
	events []headgate.Event
}

func (n *notes) Observe(e headgate.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
}

func (n *notes) take() []headgate.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	events := n.events
	n.events = nil
	return events
}

// watchedStore counts the calls on keys and makes some of them slow.
type watchedStore struct {
	headgate.Store
	calls atomic.Int64
	slow  map[string]time.Duration // only read

	slowSpacing time.Duration
}

type watchedBound struct {
	headgate.Bound
	store *watchedStore
}

func (s *watchedStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return &watchedBound{b, s}, err
}

func (b *watchedBound) watch(key string) {
	b.store.calls.Add(1)
	time.Sleep(b.store.slow[key])
}

func (b *watchedBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	b.watch(key)
	return b.Bound.Apply(ctx, now, key, v, cost)
}

func (b *watchedBound) Reserve(ctx context.Context, now headgate.Instant, key string, cost int64, longest time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	b.watch(key)
	return b.Bound.Reserve(ctx, now, key, cost, longest)
}

func (b *watchedBound) Spacing(cost int64) time.Duration {
	time.Sleep(b.store.slowSpacing)
	return b.Bound.Spacing(cost)
}
