package fallback_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

var outage = flag.Duration("outage", 0, "minimum time for which tests make Redis unavailable")

// testTimeout bounds waits whose duration depends on the load of the machine.
const testTimeout = 30 * time.Second

const callers = 64

// crowd is a set of callers that send requests continuously, each for its own key and for
// one shared key.
type crowd struct {
	stop   atomic.Bool
	wait   sync.WaitGroup
	mu     sync.Mutex
	counts map[headgate.StoreErrorReason]int // of the decisions, by why they were degraded
	err    error
}

func newCrowd(l *headgate.Limiter) *crowd {
	c := &crowd{counts: map[headgate.StoreErrorReason]int{}}
	for i := range callers {
		c.wait.Go(func() {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			for n := 0; !c.stop.Load(); n++ {
				key := "all"
				if n%4 > 0 {
					key = fmt.Sprint("key ", i, " ", n%50)
				}
				d, err := l.Allow(ctx, key)
				c.add(d.Degraded, err)
				time.Sleep(4 * time.Millisecond)
			}
		})
	}
	return c
}

func (c *crowd) add(degraded headgate.StoreErrorReason, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[degraded]++
	if err != nil {
		c.err = err
	}
}

// since forgets all decisions so far, but for errors, and returns how many there were.
func (c *crowd) since() map[headgate.StoreErrorReason]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = map[headgate.StoreErrorReason]int{}
	return counts
}

// decides waits until the crowd got so many decisions of a kind, beginning now.
func (c *crowd) decides(t *testing.T, want int, degraded headgate.StoreErrorReason) {
	t.Helper()
	c.since()
	eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.counts[degraded] >= want
	}, fmt.Sprintf("%d decisions degraded by %v", want, degraded))
}

// leave ends the crowd, and fails the test if a caller got an error.
func (c *crowd) leave(t *testing.T) {
	t.Helper()
	c.stop.Store(true)
	c.wait.Wait()
	if c.err != nil {
		t.Errorf("a caller got error %v want a decision: the rule says local", c.err)
	}
}

// eventually fails the test unless something becomes true.
func eventually(t *testing.T, true func() bool, want string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !true(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: want %s", testTimeout, want)
		}
	}
}

// fault makes a server unavailable and recovers it.
type fault struct {
	name          string
	proxied       bool // connect through a fault proxy, which has goroutines for each connection
	fail, recover func(t *testing.T, s *testserver.RedisServer, p *testserver.FaultProxy)
}

var faults = []fault{
	{
		"stopped", false,
		func(_ *testing.T, s *testserver.RedisServer, _ *testserver.FaultProxy) { s.Stop() },
		func(_ *testing.T, s *testserver.RedisServer, _ *testserver.FaultProxy) { s.Continue() },
	},
	{
		"killed", false,
		func(_ *testing.T, s *testserver.RedisServer, _ *testserver.FaultProxy) { s.Kill() },
		func(_ *testing.T, s *testserver.RedisServer, _ *testserver.FaultProxy) { s.Start() },
	},
	{
		"partition", true,
		func(_ *testing.T, _ *testserver.RedisServer, p *testserver.FaultProxy) { p.Blackhole(true) },
		func(_ *testing.T, _ *testserver.RedisServer, p *testserver.FaultProxy) { p.Blackhole(false) },
	},
	{
		"cut", true,
		func(_ *testing.T, _ *testserver.RedisServer, p *testserver.FaultProxy) { p.Cut() },
		func(_ *testing.T, _ *testserver.RedisServer, p *testserver.FaultProxy) { p.Restore() },
	},
	{
		"out of memory", false, // it answers peeks, and so probes
		func(t *testing.T, s *testserver.RedisServer, _ *testserver.FaultProxy) {
			s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		},
		func(t *testing.T, s *testserver.RedisServer, _ *testserver.FaultProxy) {
			s.Do(t, "CONFIG", "SET", "maxmemory", "0")
		},
	},
	{
		"made a replica", false,
		func(t *testing.T, s *testserver.RedisServer, _ *testserver.FaultProxy) {
			s.Do(t, "REPLICAOF", "127.0.0.1", "1")
		},
		func(t *testing.T, s *testserver.RedisServer, _ *testserver.FaultProxy) {
			s.Do(t, "REPLICAOF", "NO", "ONE")
		},
	},
}

// TestRedisUnavailable makes a real server unavailable under load, in each way: it is
// noticed once, and its recovery once. // T40
func TestRedisUnavailable(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) { makeUnavailable(t, f) })
	}
}

func makeUnavailable(t *testing.T, f fault) {
	server := testserver.Redis(t)
	proxy := testserver.Proxy(t, server.Addr())
	addr := server.Addr()
	if f.proxied {
		addr = proxy.Addr()
	}
	inner, err := redisstore.Open("redis://"+addr, &redisstore.Options{Timeout: testTimeout})
	if err != nil {
		t.Fatal(err)
	}
	recorder := &eventRecorder{}
	// A server that is well on a machine that is busy takes less time than this budget.
	s := around(t, inner, &fallback.Options{Local: memstore.New(nil), Instances: 4, Observer: recorder, Budget: time.Second})
	c := newCrowd(limiter(t, s, "", "100/1s", headgate.FailLocal))
	c.decides(t, 5*callers, headgate.ReasonNone)

	goroutines := runtime.NumGoroutine()
	began := time.Now()
	f.fail(t, server, proxy)
	eventually(t, func() bool { return len(recorder.names()) > 0 }, "the outage observed")
	known := c.since()
	c.decides(t, 20*callers, headgate.ReasonBreakerOpen)
	most := 0
	for most == 0 || time.Since(began) < *outage {
		most = max(most, runtime.NumGoroutine())
		time.Sleep(time.Millisecond)
	}
	during := c.since()
	f.recover(t, server, proxy)
	eventually(t, func() bool { return len(recorder.names()) > 1 }, "the recovery observed")
	c.decides(t, 5*callers, headgate.ReasonNone)
	c.leave(t)
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}

	if got := recorder.names(); len(got) != 2 || got[1] != "recovered" {
		t.Errorf("got events %q, want one outage and one recovery", got)
	}
	// Calls in flight when the breaker opens end with their own result. Later calls do
	// not reach the store.
	if asked := during[headgate.ReasonTimedOut] + during[headgate.ReasonUnreachable] + during[headgate.ReasonRefused]; asked > callers {
		t.Errorf("once the outage was known: got %v want all but at most %d degraded by %v", during, callers, headgate.ReasonBreakerOpen)
	}
	// The client keeps a goroutine for each abandoned call until it closes the
	// connection.
	if most > goroutines+callers {
		t.Errorf("%d goroutines during the outage, %d before want no more than one more for each caller", most, goroutines)
	}
	t.Logf("decisions until the outage was known: %v; then: %v; goroutines %d, before %d", known, during, most, goroutines)
}
