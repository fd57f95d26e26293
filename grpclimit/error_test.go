package grpclimit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

func TestNothingCouldBeDecided(t *testing.T) {
	t.Parallel()
	var cause error
	own := func(_ context.Context, _ grpclimit.Call, err error) error {
		cause = err
		return nil
	}
	below := same(policy("calls", "1/1h"))
	below.Cost = func(context.Context, grpclimit.Call) int64 { return -1 }
	for _, c := range []struct {
		name   string
		opts   *grpclimit.Options
		charge grpclimit.Charge
		closed bool
		want   codes.Code
		retry  time.Duration
	}{
		{"a store that is closed", nil, same(policy("calls", "1/1h")), true, codes.Unavailable, time.Second},
		{"let pass all the same", &grpclimit.Options{ErrorHandler: own}, same(policy("calls", "1/1h")), true, codes.OK, 0},
		{"a cost below zero", nil, below, false, codes.Internal, 0},
	} {
		store := memstore.New(nil)
		l, err := grpclimit.NewServer(store, c.opts, c.charge)
		if err != nil {
			t.Fatal(err)
		}
		if c.closed {
			store.Close()
		}
		w := serve(t, &service{}, l)
		_, _, err = w.empty(t.Context())
		mustCode(t, c.name, err, c.want)
		if retry, _ := details(err); retry.GetRetryDelay().AsDuration() != c.retry {
			t.Errorf("%s: RetryInfo: got %v want %v", c.name, retry, c.retry)
		}
	}
	if !errors.Is(cause, headgate.ErrClosed) {
		t.Errorf("Undecided heard of %v want the store's error", cause)
	}
}

// The policy says what holds while Redis is away; what is told of that names no server.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	for _, c := range []struct {
		on   headgate.OnStoreError
		want []codes.Code
	}{
		{headgate.FailOpen, []codes.Code{codes.OK, codes.OK, codes.OK}},
		{headgate.FailLocal, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}},
		{headgate.FailClosed, []codes.Code{codes.Unavailable, codes.Unavailable, codes.Unavailable}},
	} {
		heard := &tape{}
		w := serve(t, &service{}, overRedis(t, redis, c.on, heard))
		redis.Start()
		_, _, err := w.empty(t.Context())
		mustCode(t, "Redis decides", err, codes.OK)
		redis.Kill()
		for i, want := range c.want {
			_, _, err := w.empty(t.Context())
			mustCode(t, string(c.on), err, want)
			if e := heard.heard()[i+1]; want != codes.Unavailable && e.Decision.Degraded == headgate.ReasonNone || want == codes.Unavailable && e.Err == nil {
				t.Errorf("%s: observed %+v want it degraded, or an error", c.on, e)
			}
			if m := status.Convert(err).Message(); want == codes.Unavailable && m != "rate limit: the limit could not be checked; try again in 1s" {
				t.Errorf("%s: told %q, which says too much", c.on, m)
			}
		}
	}
}

// The queue of a share is as long as the share says, though the limit's own is longer.
func TestQueueOfAShare(t *testing.T) {
	t.Parallel()
	inner, err := redisstore.Open("redis://127.0.0.1:1", nil) // where nobody is
	if err != nil {
		t.Fatal(err)
	}
	store, err := fallback.New(inner, &fallback.Options{Local: memstore.New(nil), Instances: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := leaky("queue", "1/1h queue 10")
	p.OnStoreError = headgate.FailLocal
	decided := make(decisions, 20)
	l, err := grpclimit.NewServer(store, &grpclimit.Options{Observer: decided}, same(p))
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, &service{}, l)
	ctx, cancel := context.WithCancel(t.Context())
	var held sync.WaitGroup
	for i := range 6 {
		held.Go(func() { w.empty(ctx) })
		if e := <-decided; e.Err != nil || e.Decision.Allowed != (i < 5) || e.Decision.Degraded == headgate.ReasonNone {
			t.Errorf("call %d, while the others are held: got %+v want it allowed for the first 5, degraded", i, e)
		}
	}
	cancel()
	held.Wait()
}

// Giving back outlives the call that has ended, also where the store looks at its context.
func TestGivingBackToRedis(t *testing.T) {
	t.Parallel()
	store, err := redisstore.Open("redis://"+testserver.Redis(t).Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	queue, out, turns := leaky("queue", "1/1h queue 1"), policy("out", "5/1h"), policy("turns", "1/1h")
	decided := make(decisions, 10)
	onServer, err := grpclimit.NewServer(store, &grpclimit.Options{Observer: decided}, same(queue))
	if err != nil {
		t.Fatal(err)
	}
	onClient, err := grpclimit.NewClient(store, &grpclimit.ClientOptions{Observer: decided}, same(out), same(turns))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		world  *world
		policy headgate.Policy
		left   int64 // while the second call waits, and one more once it has given back
	}{
		{"a server's queue", serve(t, &service{}, onServer), queue, 0},
		{"a client's first charge", waiting(t, &service{}, onClient), out, 3},
	} {
		limiter, err := headgate.New(store, c.policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.world.empty(t.Context())
		mustCode(t, c.name, err, codes.OK)
		decided.await(c.policy)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, _, err := c.world.empty(ctx); gone <- err }()
		decided.await(c.policy) // or else it is not known whether anything was taken, and nothing is given back
		until(t, limiter, c.left)
		cancel()
		mustCode(t, c.name, <-gone, codes.Canceled)
		until(t, limiter, c.left+1)
	}
}

// decisions are those that an observer heard of.
type decisions chan headgate.Event

func (d decisions) Observe(e headgate.Event) { d <- e }

// await waits for the next decision under a policy.
func (d decisions) await(p headgate.Policy) {
	for e := range d {
		if e.Policy == p.Name {
			return
		}
	}
}

// until asks until so much remains.
func until(t *testing.T, l *headgate.Limiter, remaining int64) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		d, err := l.PeekN(t.Context(), "", 0)
		if err != nil || time.Since(begin) > 10*time.Second {
			t.Fatalf("got %+v, error %v want %d remaining", d, err, remaining)
		}
		if d.Remaining == remaining {
			return
		}
	}
}

func overRedis(t *testing.T, redis *testserver.RedisServer, on headgate.OnStoreError, o headgate.Observer) *grpclimit.Server {
	t.Helper()
	inner, err := redisstore.Open("redis://"+redis.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := fallback.New(inner, &fallback.Options{Local: memstore.New(nil), Instances: 1, Budget: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	p := policy("calls-"+string(on), "2/1h")
	p.OnStoreError = on
	l, err := grpclimit.NewServer(store, &grpclimit.Options{Observer: o}, same(p))
	if err != nil {
		t.Fatal(err)
	}
	return l
}
