package httplimit_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// killableStore returns a Redis server and a store on it with a local fallback, which
// is one of several instances.
func killableStore(t *testing.T, instances int) (*testserver.RedisServer, headgate.Store) {
	t.Helper()
	redis := testserver.Redis(t)
	inner, err := redisstore.Open("redis://"+redis.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := fallback.New(inner, &fallback.Options{
		Local: memstore.New(nil), Instances: instances, Budget: 5 * time.Second, ProbeEvery: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return redis, store
}

// Each failure mode has its behaviour while Redis is unavailable, and ends when Redis
// recovers.
func TestFailureModes(t *testing.T) {
	t.Parallel()
	redis, store := killableStore(t, 2)
	under := func(mode headgate.OnStoreError) *site {
		p := policy(string(mode), "4/1h")
		p.OnStoreError = mode
		return listen(t, newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: p})(ok))
	}
	closed, open, local := under(headgate.FailClosed), under(headgate.FailOpen), under(headgate.FailLocal)
	for _, s := range []*site{closed, open, local} {
		s.must(200, 200, 200)
	}
	redis.Kill()
	for range 10 {
		got := closed.get("/")
		if got.status != 503 || got.header.Get("Retry-After") != "1" || got.header.Get("Ratelimit-Reason") != "capacity" {
			t.Fatalf("closed: got %d, %v want 503 with Retry-After", got.status, got.header)
		}
	}
	open.must(200, 200, 200, 200, 200, 200)
	local.must(200, 200, 429) // half of the limit, as two share it
	redis.Start()
	for start := time.Now(); closed.get("/").status == 503; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("Redis runs again, but the store did not recover within 10 s")
		}
	}
}

// Several policies and cost adjustments work with Redis.
func TestRedis(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	store, err := redisstore.Open("redis://"+redis.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	failures, all := policy("failures", "2/1h"), policy("all", "7/1h")
	s := listen(t, newMiddlewareOn(t, store, nil,
		httplimit.Charge{Policy: failures, Key: httplimit.Header("User"), AdjustCost: httplimit.OnlyFailures},
		httplimit.Charge{Policy: all, Key: httplimit.Global(), AdjustCost: httplimit.PerBytes(10)},
	)(status(401)))
	for i, want := range []int{401, 401, 429} {
		if got := s.get("/", "User", "{a}:b"); got.status != want {
			t.Errorf("guess %d: got %d want %d", i+1, got.status, want)
		}
	}
	if got := remaining(t, store, all, ""); got != 5 {
		t.Errorf("%d of 7 left want 5: denied requests spend nothing", got)
	}
	fine := listen(t, newMiddlewareOn(t, store, nil,
		httplimit.Charge{Policy: failures, Key: httplimit.Header("User"), AdjustCost: httplimit.OnlyFailures},
		httplimit.Charge{Policy: all, Key: httplimit.Global(), AdjustCost: httplimit.PerBytes(10)},
	)(body(25)))
	for range 2 {
		if got := fine.get("/", "User", "c"); got.status != 200 {
			t.Errorf("got %d want 200", got.status)
		}
	}
	if got := remaining(t, store, failures, "c"); got != 2 {
		t.Errorf("%d failures left want 2: no request failed", got)
	}
	if got := remaining(t, store, all, ""); got != 0 {
		t.Errorf("%d of 7 left want 0: 3 for each body, at most what remains", got)
	}
}

// The units of a disconnected client are refunded to Redis, although the request's
// context has ended.
func TestRedisRefundsAfterDisconnect(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	store, err := redisstore.Open("redis://"+redis.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	settled, line := policy("settled", "5/1h"), queue("line", "1/1h queue 4")
	ctx, cancel := context.WithCancel(t.Context())
	serve(newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: settled, AdjustCost: httplimit.OnlyFailures})(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() })), request("203.0.113.9:1").WithContext(ctx))
	if got := remaining(t, store, settled, "203.0.113.9"); got != 5 {
		t.Errorf("client disconnected in the handler: %d units left want 5", got)
	}
	events := make(decisions, 3) // taken, queued, cancelled
	queued := newMiddlewareOn(t, store, &httplimit.Options{Observer: events}, httplimit.Charge{Policy: line})(ok)
	serve(queued, request("203.0.113.9:1"))
	<-events
	ctx, cancel = context.WithCancel(t.Context())
	code := make(chan int)
	go func() { code <- serve(queued, request("203.0.113.9:1").WithContext(ctx)).Code }()
	<-events // the response of Redis has arrived: a call in flight would have an unknown outcome
	cancel()
	if got := <-code; got != 499 {
		t.Errorf("left the queue: got %d want 499", got)
	}
	if got := remaining(t, store, line, "203.0.113.9"); got != 4 {
		t.Errorf("left the queue: %d places left want 4", got)
	}
}

// decisions is an observer that sends every event.
type decisions chan headgate.Event

func (d decisions) Observe(e headgate.Event) { d <- e }

// Units that the local fallback granted while Redis was unavailable are not refunded to
// Redis.
func TestRefundGoesToGrantingStore(t *testing.T) {
	t.Parallel()
	redis, store := killableStore(t, 1)
	for _, mode := range []headgate.OnStoreError{headgate.FailOpen, headgate.FailLocal} {
		p := policy(string(mode), "5/1h")
		p.OnStoreError = mode
		under := func(h http.HandlerFunc) http.Handler {
			return newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: p, AdjustCost: httplimit.OnlyFailures})(h)
		}
		redis.Kill()
		for range 10 { // more than the limit: each unit is refunded to the fallback
			if got := serve(under(status(200)), request("203.0.113.9:1")).Code; got != 200 {
				t.Errorf("%s, Redis unavailable: got %d want 200", mode, got)
			}
		}
		serve(under(func(http.ResponseWriter, *http.Request) {
			redis.Start()
			for isDegraded(t, store, p) {
				time.Sleep(time.Millisecond)
			}
			for range 3 {
				serve(under(status(401)), request("203.0.113.9:1"))
			}
		}), request("203.0.113.9:1"))
		if got := remaining(t, store, p, "203.0.113.9"); got != 2 {
			t.Errorf("%s: %d left want 2: three requests failed since Redis recovered", mode, got)
		}
	}
}

// isDegraded reports whether the local fallback makes the decisions.
func isDegraded(t *testing.T, store headgate.Store, p headgate.Policy) bool {
	t.Helper()
	l, err := headgate.New(store, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.PeekN(t.Context(), "client", 0)
	return err != nil || d.Degraded != headgate.ReasonNone
}

// While Redis is unavailable the local fallback has a share of the limit, and a queue
// as long as that share, as for a limiter over the same store.
func TestLocalFallbackQueueLength(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	redis.Kill()
	for _, instances := range []int{1, 3, 4} {
		inner, err := redisstore.Open("redis://"+redis.Addr(), nil)
		if err != nil {
			t.Fatal(err)
		}
		store, err := fallback.New(inner, &fallback.Options{Local: memstore.New(nil), Instances: instances})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		recorded, p := &eventRecorder{}, queue("q", "1/1h queue 9")
		p.OnStoreError = headgate.FailLocal
		l, err := headgate.New(store, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := newMiddlewareOn(t, store, &httplimit.Options{Observer: recorded}, httplimit.Charge{Policy: p})(ok)
		ctx, cancel := context.WithCancel(t.Context())
		var held sync.WaitGroup
		for i := range 12 {
			want, err := l.Allow(t.Context(), "client")
			if err != nil {
				t.Fatal(err)
			}
			held.Go(func() { serve(h, request("203.0.113.9:1").WithContext(ctx)) })
			for len(recorded.all()) == i {
				time.Sleep(100 * time.Microsecond)
			}
			if got := recorded.all()[i].Decision; got.Allowed != want.Allowed || got.Degraded == headgate.ReasonNone {
				t.Errorf("a share of 1/%d, request %d: got %+v want %+v", instances, i+1, got, want)
			}
		}
		cancel()
		held.Wait()
	}
}
