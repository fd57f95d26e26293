package fallback_test

import (
	"context"
	"errors"
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

var outage = flag.Duration("outage", 0, "minimum duration of each Redis outage in TestRedisUnavailable")

// maxWait bounds waits whose length depends on the load of the machine.
const maxWait = 30 * time.Second

const callers = 64

// clients send requests continuously, for their own keys and for a key that all of them
// share.
type clients struct {
	stop   atomic.Bool
	wait   sync.WaitGroup
	mu     sync.Mutex
	counts map[headgate.StoreErrorReason]int // of decisions, by Degraded
	err    error
}

func startClients(l *headgate.Limiter) *clients {
	c := &clients{counts: map[headgate.StoreErrorReason]int{}}
	for i := range callers {
		c.wait.Go(func() {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			for n := 0; !c.stop.Load(); n++ {
				key := "all"
				if n%4 > 0 {
					key = fmt.Sprint("key ", i, " ", n%50)
				}
				if n%3 == 0 {
					c.add(hold(ctx, l, key))
				} else {
					d, err := l.Allow(ctx, key)
					c.add(d.Degraded, err)
				}
				time.Sleep(4 * time.Millisecond)
			}
		})
	}
	return c
}

// hold opens and commits a hold. The commit may find no hold, because a server that was
// killed has lost it.
func hold(ctx context.Context, l *headgate.Limiter, key string) (headgate.StoreErrorReason, error) {
	h, err := l.Hold(ctx, key, 2, time.Hour)
	if err != nil || !h.OK() {
		return headgate.ReasonNone, err
	}
	if _, err := h.Commit(ctx, 1); err != nil && !errors.Is(err, headgate.ErrUnknownHold) {
		return headgate.ReasonNone, fmt.Errorf("commit: %w", err)
	}
	return h.Decision().Degraded, nil
}

func (c *clients) add(degraded headgate.StoreErrorReason, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[degraded]++
	if err != nil {
		c.err = err
	}
}

// takeCounts returns the counts of decisions so far and resets them. It keeps errors.
func (c *clients) takeCounts() map[headgate.StoreErrorReason]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.counts
	c.counts = map[headgate.StoreErrorReason]int{}
	return counts
}

// waitForDecisions waits until the clients received want further decisions of a kind.
func (c *clients) waitForDecisions(t *testing.T, want int, degraded headgate.StoreErrorReason) {
	t.Helper()
	c.takeCounts()
	eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.counts[degraded] >= want
	}, fmt.Sprintf("%d decisions degraded by %v", want, degraded))
}

// finish stops the clients. It fails the test if a client received an error.
func (c *clients) finish(t *testing.T) {
	t.Helper()
	c.stop.Store(true)
	c.wait.Wait()
	if c.err != nil {
		t.Errorf("a client received error %v want a decision: the rule fails local", c.err)
	}
}

// eventually fails the test unless the condition becomes true within maxWait.
func eventually(t *testing.T, true func() bool, want string) {
	t.Helper()
	for deadline := time.Now().Add(maxWait); !true(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: want %s", maxWait, want)
		}
	}
}

// fault makes a server unavailable, and available again.
type fault struct {
	name          string
	proxied       bool // the network fails; a proxy has own goroutines for each connection
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
		"out of memory", false, // peeks, and so probes, succeed
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

// TestRedisUnavailable makes a real server unavailable under load, with each fault. The
// observer receives one outage and one recovery. // T40
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
	inner, err := redisstore.Open("redis://"+addr, &redisstore.Options{Timeout: maxWait})
	if err != nil {
		t.Fatal(err)
	}
	recorder := &eventRecorder{}
	// An available server replies within this budget, also on a busy machine.
	s := around(t, inner, &fallback.Options{Local: memstore.New(nil), Instances: 4, Observer: recorder, Budget: time.Second})
	c := startClients(limiter(t, s, "", "100/1s", headgate.FailLocal))
	c.waitForDecisions(t, 5*callers, headgate.ReasonNone)

	goroutines := runtime.NumGoroutine()
	began := time.Now()
	f.fail(t, server, proxy)
	eventually(t, func() bool { return len(recorder.names()) > 0 }, "the outage observed")
	known := c.takeCounts()
	c.waitForDecisions(t, 20*callers, headgate.ReasonBreakerOpen)
	most := 0
	for most == 0 || time.Since(began) < *outage {
		most = max(most, runtime.NumGoroutine())
		time.Sleep(time.Millisecond)
	}
	during := c.takeCounts()
	f.recover(t, server, proxy)
	eventually(t, func() bool { return len(recorder.names()) > 1 }, "the recovery observed")
	c.waitForDecisions(t, 5*callers, headgate.ReasonNone)
	c.finish(t)
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}

	if got := recorder.names(); len(got) != 2 || got[1] != "recovered" {
		t.Errorf("the observer received %q want one outage and one recovery", got)
	}
	// Callers that wait when the breaker opens time out. Afterwards no caller reaches the
	// store.
	if calls := during[headgate.ReasonTimedOut] + during[headgate.ReasonUnreachable] + during[headgate.ReasonRefused]; calls > callers {
		t.Errorf("after the breaker opened: got %v want all but at most %d degraded by %v", during, callers, headgate.ReasonBreakerOpen)
	}
	// The client keeps a goroutine for each abandoned call until it closes the
	// connection. A caller may abandon a hold and its commit.
	if most > goroutines+2*callers {
		t.Errorf("%d goroutines during the outage, %d before want no more than two more for each caller", most, goroutines)
	}
	t.Logf("decisions until the breaker opened: %v; then: %v; goroutines %d, before %d", known, during, most, goroutines)
}
