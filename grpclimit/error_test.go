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

func TestStoreError(t *testing.T) {
	t.Parallel()
	var cause error
	allow := func(_ context.Context, _ grpclimit.Call, err error) error {
		cause = err
		return nil
	}
	negative := globalCharge(policy("calls", "1/1h"))
	negative.Cost = func(context.Context, grpclimit.Call) int64 { return -1 }
	for _, c := range []struct {
		name   string
		opts   *grpclimit.Options
		charge grpclimit.Charge
		closed bool
		want   codes.Code
		retry  time.Duration
	}{
		{"closed store", nil, globalCharge(policy("calls", "1/1h")), true, codes.Unavailable, time.Second},
		{"ErrorHandler allows", &grpclimit.Options{ErrorHandler: allow}, globalCharge(policy("calls", "1/1h")), true, codes.OK, 0},
		{"a cost below zero", nil, negative, false, codes.Internal, 0},
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
		t.Errorf("ErrorHandler received %v want the store's error", cause)
	}
}

// Each failure mode has its behaviour while Redis is unavailable. The error message
// does not contain the address of the server.
func TestFailureModes(t *testing.T) {
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
		recorded := &eventRecorder{}
		w := serve(t, &service{}, newRedisServer(t, redis, c.on, recorded))
		redis.Start()
		_, _, err := w.empty(t.Context())
		mustCode(t, "Redis decides", err, codes.OK)
		redis.Kill()
		for i, want := range c.want {
			_, _, err := w.empty(t.Context())
			mustCode(t, string(c.on), err, want)
			if e := recorded.all()[i+1]; want != codes.Unavailable && e.Decision.Degraded == headgate.ReasonNone || want == codes.Unavailable && e.Err == nil {
				t.Errorf("%s: observed %+v want it degraded, or an error", c.on, e)
			}
			if m := status.Convert(err).Message(); want == codes.Unavailable && m != "rate limit: the limit could not be checked; try again in 1s" {
				t.Errorf("%s: got message %q", c.on, m)
			}
		}
	}
}

// The local fallback has a share of the limit, and a queue as long as that share.
func TestLocalFallbackQueueLength(t *testing.T) {
	t.Parallel()
	inner, err := redisstore.Open("redis://127.0.0.1:1", nil) // no server listens there
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
	events := make(eventChan, 20)
	l, err := grpclimit.NewServer(store, &grpclimit.Options{Observer: events}, globalCharge(p))
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, &service{}, l)
	ctx, cancel := context.WithCancel(t.Context())
	var held sync.WaitGroup
	for i := range 6 {
		held.Go(func() { w.empty(ctx) })
		if e := <-events; e.Err != nil || e.Decision.Allowed != (i < 5) || e.Decision.Degraded == headgate.ReasonNone {
			t.Errorf("call %d, while the others wait: got %+v want it allowed for the first 5, degraded", i, e)
		}
	}
	cancel()
	held.Wait()
}

// Units are refunded although the context of the call has ended.
func TestRefundToRedisAfterCancel(t *testing.T) {
	t.Parallel()
	store, err := redisstore.Open("redis://"+testserver.Redis(t).Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	queue, out, turns := leaky("queue", "1/1h queue 1"), policy("out", "5/1h"), policy("turns", "1/1h")
	events := make(eventChan, 10)
	onServer, err := grpclimit.NewServer(store, &grpclimit.Options{Observer: events}, globalCharge(queue))
	if err != nil {
		t.Fatal(err)
	}
	onClient, err := grpclimit.NewClient(store, &grpclimit.ClientOptions{Observer: events}, globalCharge(out), globalCharge(turns))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		testServer *testServer
		policy     headgate.Policy
		left       int64 // while the second call waits; one more after the refund
	}{
		{"server queue", serve(t, &service{}, onServer), queue, 0},
		{"first charge of a client", serveClient(t, &service{}, onClient), out, 3},
	} {
		limiter, err := headgate.New(store, c.policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.testServer.empty(t.Context())
		mustCode(t, c.name, err, codes.OK)
		events.await(c.policy)
		ctx, cancel := context.WithCancel(t.Context())
		canceled := make(chan error)
		go func() { _, _, err := c.testServer.empty(ctx); canceled <- err }()
		events.await(c.policy) // so that the charge is made before the call is canceled
		waitForRemaining(t, limiter, c.left)
		cancel()
		mustCode(t, c.name, <-canceled, codes.Canceled)
		waitForRemaining(t, limiter, c.left+1)
	}
}

// eventChan is an observer that sends events to a channel.
type eventChan chan headgate.Event

func (d eventChan) Observe(e headgate.Event) { d <- e }

// await waits for the next event of a policy.
func (d eventChan) await(p headgate.Policy) {
	for e := range d {
		if e.Policy == p.Name {
			return
		}
	}
}

// waitForRemaining waits until the limit has that many units remaining.
func waitForRemaining(t *testing.T, l *headgate.Limiter, remaining int64) {
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

// newRedisServer returns a server limit with a store on Redis and a local fallback.
func newRedisServer(t *testing.T, redis *testserver.RedisServer, on headgate.OnStoreError, o headgate.Observer) *grpclimit.Server {
	t.Helper()
	p := policy("calls-"+string(on), "2/1h")
	p.OnStoreError = on
	l, err := grpclimit.NewServer(openRedis(t, redis), &grpclimit.Options{Observer: o}, globalCharge(p))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// openRedis returns a store on Redis with a fallback for each failure mode.
func openRedis(t *testing.T, redis *testserver.RedisServer) headgate.Store {
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
	return store
}
