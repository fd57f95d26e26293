package fallback_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strings"
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

var outageFlag = flag.Duration("outage", 0, "how long Redis is away in the tests that take it away; 0 means 1 s, and half of that with -short")

func outageLength() time.Duration {
	switch {
	case *outageFlag > 0:
		return *outageFlag
	case testing.Short():
		return 500 * time.Millisecond
	}
	return time.Second
}

const callers = 64

// answer is one decision of a crowd.
type answer struct {
	began, took time.Duration // began since the test did
	degraded    headgate.Trouble
}

// crowd is callers who ask all the time, for keys of their own and for one that all ask for.
type crowd struct {
	began   time.Time
	stop    atomic.Bool
	wait    sync.WaitGroup
	answers [callers][]answer
	failed  atomic.Pointer[error]
}

func newCrowd(l *headgate.Limiter, began time.Time) *crowd {
	c := &crowd{began: began}
	for i := range callers {
		c.wait.Go(func() {
			ctx, cancel := context.WithCancel(background)
			defer cancel()
			for n := 0; !c.stop.Load(); n++ {
				key := "all"
				if n%4 > 0 {
					key = fmt.Sprint("key ", i, " ", n%50)
				}
				began := time.Since(c.began)
				d, err := l.Allow(ctx, key)
				if err != nil {
					c.failed.Store(&err)
					return
				}
				c.answers[i] = append(c.answers[i], answer{began, time.Since(c.began) - began, d.Degraded})
				time.Sleep(4 * time.Millisecond)
			}
		})
	}
	return c
}

func (c *crowd) now() time.Duration { return time.Since(c.began) }

// leave ends the crowd and gives its answers, by the instant at which they were asked for.
func (c *crowd) leave(t *testing.T) []answer {
	t.Helper()
	c.stop.Store(true)
	c.wait.Wait()
	if err := c.failed.Load(); err != nil {
		t.Errorf("a caller got error %v want a decision: the rule says local", *err)
	}
	var all []answer
	for i := range c.answers {
		all = append(all, c.answers[i]...)
	}
	slices.SortFunc(all, func(a, b answer) int { return int(a.began - b.began) })
	return all
}

// percentile of the time taken by the answers asked for from one instant to another.
func percentile(all []answer, from, to time.Duration, p float64) (took time.Duration, n int) {
	var times []time.Duration
	for _, a := range all {
		if a.began >= from && a.began < to {
			times = append(times, a.took)
		}
	}
	if len(times) == 0 {
		return 0, 0
	}
	slices.Sort(times)
	return times[int(float64(len(times)-1)*p)], len(times)
}

// timed is an observer that keeps when it heard.
type timed struct {
	hears
	mu    sync.Mutex
	began time.Time
	at    []time.Duration
}

func (o *timed) ObserveStore(e headgate.StoreEvent) {
	o.mu.Lock()
	o.at = append(o.at, time.Since(o.began))
	o.mu.Unlock()
	o.hears.ObserveStore(e)
}

// when is the instant of the i-th event, or a long time.
func (o *timed) when(i int) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i < len(o.at) {
		return o.at[i]
	}
	return time.Hour
}

// fault takes a server away and brings it back.
type fault struct {
	name       string
	proxied    bool // the network fails: it is reached through one that can (which has goroutines of its own for each connection)
	away, back func(t *testing.T, s *testserver.RedisServer, p *testserver.FaultProxy)
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

// TestRedisAway takes a real server away under load, in each way, and looks at every decision. On a machine that is busy with other
// things a server that is well is late as well, so a look during which this process itself was late is taken again.
func TestRedisAway(t *testing.T) { // T40
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			for tries := 1; ; tries++ {
				wrong, late := takeAway(t, f)
				if len(wrong) == 0 {
					return
				}
				if late < tooLate || tries == 5 {
					t.Errorf("%s\n(this process was up to %v late)", strings.Join(wrong, "\n"), late)
					return
				}
				t.Logf("once more, as this process was %v late: %s", late, strings.Join(wrong, "; "))
			}
		})
	}
}

// tooLate is how late a process may be that is to see what 50 ms are.
const tooLate = 10 * time.Millisecond

// lateness watches how much longer than asked for this process sleeps.
func lateness() (most func() time.Duration) {
	var stop atomic.Bool
	late := make(chan time.Duration)
	go func() {
		worst := time.Duration(0)
		for !stop.Load() {
			began := time.Now()
			time.Sleep(time.Millisecond)
			worst = max(worst, time.Since(began)-time.Millisecond)
		}
		late <- worst
	}()
	return func() time.Duration {
		stop.Store(true)
		return <-late
	}
}

// takeAway says what was wrong, and how late this process was meanwhile.
func takeAway(t *testing.T, f fault) (wrong []string, late time.Duration) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	watched := lateness()
	defer func() { late = watched() }()
	server := testserver.Redis(t)
	proxy := testserver.Proxy(t, server.Addr())
	addr := server.Addr()
	if f.proxied {
		addr = proxy.Addr()
	}
	inner, err := redisstore.Open("redis://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	ears := &timed{began: time.Now()}
	s := around(t, inner, &fallback.Options{Local: memstore.New(nil), Instances: 4, Observer: ears})
	l := limiter(t, s, "", "100/1s", headgate.FailLocal)
	if d, err := l.Allow(background, "key"); err != nil || d.Degraded != headgate.NoTrouble {
		complain("before: got %+v, error %v want a decision of Redis", d, err)
		return wrong, late
	}
	c := newCrowd(l, ears.began)
	time.Sleep(200 * time.Millisecond)

	goroutines := runtime.NumGoroutine()
	away := c.now()
	f.away(t, server, proxy)
	most := 0
	for c.now() < away+outageLength() {
		most = max(most, runtime.NumGoroutine())
		time.Sleep(5 * time.Millisecond)
	}
	f.back(t, server, proxy)
	back := c.now()
	time.Sleep(1200 * time.Millisecond)
	all := c.leave(t)
	if err := s.Close(); err != nil {
		complain("close: %v", err)
	}

	if got := ears.heard(); len(got) != 2 || got[1] != "back" {
		complain("the observer heard %q want one away and one back", got)
	}
	last := time.Duration(0)
	for _, a := range all {
		if a.degraded != headgate.NoTrouble {
			last = a.began
		}
	}
	if last-back > time.Second {
		complain("%v after it was back a decision was still degraded want none after 1 s", last-back)
	}
	p99, n := percentile(all, away, back, 0.99)
	slow := slowBy()
	if p99 > fallback.DefaultBudget+2*time.Millisecond+slow {
		complain("p99 of %d decisions while it was away: got %v want at most 52 ms", n, p99)
	}
	// Those who waited when it was found to be away wait for the rest of their budget.
	open, m := percentile(all, ears.when(0)+time.Millisecond, back, 0.99)
	if open > time.Millisecond+slow {
		complain("p99 of %d decisions once it was known to be away: got %v want at most 1 ms", m, open)
	}
	if most > goroutines+callers { // the client keeps one for each call that was given up, until it gives the connection up
		complain("%d goroutines while it was away, %d before want no more than one more for each caller", most, goroutines)
	}
	t.Logf("away for %v: known after %v; p99 %v of %d, then %v of %d; normal %v after it was back; goroutines %d, before %d",
		back-away, ears.when(0)-away, p99, n, open, m, last-back, most, goroutines)
	return wrong, late
}

// slowBy is what a machine with the race detector, or with little to spare, may take longer.
func slowBy() time.Duration {
	if raceEnabled {
		return 20 * time.Millisecond
	}
	return 0
}
