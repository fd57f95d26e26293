package lease_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// kills is the number of processes that TestLeasesOnRedis kills.
const kills = 4

// Eight processes, with clocks that drift by up to 1 %, use one key on Redis with three
// times the limit. Some of them are killed and replaced, and Redis is stopped for longer
// than the TTL. No span has more units than the limit without leases, and all processes
// decide in memory again.
func TestLeasesOnRedis(t *testing.T) {
	if runChild(t) {
		return
	}
	checkBoundUnderFaults(t, map[headgate.Algorithm]string{
		headgate.TokenBucket: "4000/1s burst 1000", headgate.FixedWindow: "2000/500ms", headgate.SlidingLog: "4000/1s",
	}, func() (stopper, string) {
		server := testserver.Redis(t)
		return server, "redis://" + server.Addr()
	})
}

// TestLeasesOnMemcached is TestLeasesOnRedis on memcached.
func TestLeasesOnMemcached(t *testing.T) {
	if runChild(t) {
		return
	}
	checkBoundUnderFaults(t, map[headgate.Algorithm]string{
		headgate.TokenBucket: "4000/1s burst 1000", headgate.FixedWindow: "2000/500ms",
	}, func() (stopper, string) {
		server := testserver.Memcached(t)
		return server, memcachedScheme + server.Addr()
	})
}

// stopper is a server that can be stopped for a while.
type stopper interface {
	Stop()
	Continue()
}

// checkBoundUnderFaults starts a server and a group of processes for each of the limits.
func checkBoundUnderFaults(t *testing.T, limits map[headgate.Algorithm]string, start func() (server stopper, url string)) {
	t.Helper()
	for a, limit := range limits {
		if testing.Short() && a != headgate.TokenBucket {
			continue
		}
		server, url := start()
		g := newGroup(t, url, a, limit, 3*perSecond(headgate.MustParseLimit(limit)))
		g.checkBoundUnderFaults(server)
	}
}

func (g *group) checkBoundUnderFaults(server stopper) {
	g.t.Helper()
	stopped := 10 * time.Second
	if testing.Short() {
		stopped = time.Second
	}
	g.startAll()
	for range kills {
		g.awaitUnits(int64(perSecond(g.job.limit()) / 2))
		g.killHolder()
	}
	took := g.stopServer(server, stopped)
	g.awaitMostlyLeased()
	r := g.stopAll()
	g.check(r)
	g.t.Logf("%s %s: %d units were allowed, %d requests were decided, %d of them in memory; %d processes were killed, and all processes had leases %v after the server was stopped for %v",
		g.job.Algorithm, g.job.Limit, r.units(), r.counts.Decided, r.counts.Leased, kills, took, stopped)
}

// stopServer stops the server for a time. It returns how long after it all processes
// decided in memory again.
func (g *group) stopServer(server stopper, lasts time.Duration) time.Duration {
	g.t.Helper()
	server.Stop()
	sleepUntil(time.Now().Add(lasts))
	server.Continue()
	return g.awaitLeases(time.Now())
}

// While Redis is stopped, a process decides in memory until its lease ends. A process
// with a slow clock stops before the store's deadline.
func TestLeasesEndWhileRedisIsStopped(t *testing.T) {
	server := testserver.Redis(t)
	j := job{URL: "redis://" + server.Addr(), Algorithm: headgate.TokenBucket, Limit: "1000000/1d", ClockRate: 0.99, TTL: time.Second}
	store, b := j.open(t)
	defer store.Close()
	for begun := time.Now(); store.Stats().UnspentUnits < 10_000; {
		_, _ = b.Apply(ctx, headgate.StoreClock, "key", headgate.Take, 1) // fails if Redis is slow
		if time.Since(begun) > time.Minute {
			t.Fatalf("got a lease of %d units, want 10,000", store.Stats().UnspentUnits)
		}
	}
	server.Stop()
	stopped := time.Now()
	leased := 0
	for time.Since(stopped) < j.TTL+100*time.Millisecond {
		before := time.Since(stopped)
		d, err := b.Apply(ctx, headgate.StoreClock, "key", headgate.Take, 1)
		if err != nil || !d.Allowed {
			continue
		}
		if leased++; before > j.TTL {
			t.Fatalf("a request was allowed %v after Redis was stopped, want none after the TTL", before)
		}
		time.Sleep(100 * time.Microsecond)
	}
	server.Continue()
	t.Logf("%d requests were allowed from memory while Redis was stopped", leased)
}

// The units of killed processes stay spent, and are at most the share of the capacity.
// The whole share can be leased again after one TTL of the store's clock.
func TestKilledProcessesBlockLeasesForOneTTL(t *testing.T) {
	if runChild(t) {
		return
	}
	server := testserver.Redis(t)
	// The limit is not used up, however long the processes take to have leases.
	const capacity = 1_000_000
	g := newGroup(t, "redis://"+server.Addr(), headgate.TokenBucket, "1000000/366d", 4000)
	share := int64(headgate.DefaultLeaseShare * capacity / 100)
	g.startAll()
	g.awaitLeases(time.Time{})
	for _, c := range g.children {
		c.kill()
	}
	server.AwaitDisconnected(t)
	inner, err := redisstore.Open(g.job.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	for killed := server.Time(t); server.Time(t).Sub(killed) <= headgate.DefaultLeaseTTL; {
		time.Sleep(time.Millisecond)
	}
	result, err := inner.ApplyLease(ctx, headgate.StoreClock, headgate.LeaseOp{
		Bound: bind(t, inner, g.job.rule()), Key: "key", ID: headgate.NewHoldID(), Want: share, Max: share, TTL: time.Second,
	})
	if err != nil || result.Units != share {
		t.Errorf("got a lease of %d units, error %v, want %d", result.Units, err, share)
	}
	admitted := g.read().units()
	stranded := capacity - result.Remaining - share - admitted
	if stranded > share+processes*callers { // each caller may have been killed before it wrote
		t.Errorf("%d units are stranded, want at most %d", stranded, share)
	}
	t.Logf("%d units were allowed, and %d were stranded in %d killed processes", admitted, stranded, processes)
}

// Eight processes with very different loads, together half of the limit, allow nearly
// everything.
func TestLowLoadOnRedis(t *testing.T) {
	if runChild(t) {
		return
	}
	const rate = 20_000
	wanted := int64(rate)
	if !testing.Short() {
		wanted *= 2
	}
	g := newGroup(t, "redis://"+testserver.Redis(t).Addr(), headgate.TokenBucket, "20000/1s", rate/2)
	g.weights = []float64{0.5, 0.25, 0.12, 0.06, 0.03, 0.02, 0.01, 0.01}
	g.startAll()
	g.awaitUnits(wanted)
	r := g.stopAll()
	g.check(r)
	c := r.counts
	if float64(c.Allowed) < 0.999*float64(c.Decided) {
		t.Errorf("%d of %d requests were allowed, want at least 99.9%%", c.Allowed, c.Decided)
	}
	t.Logf("%d of %d requests were allowed, %d failed, %d were decided in memory with %d calls; %d units were stranded",
		c.Allowed, c.Asked, c.Asked-c.Decided, c.Leased, c.Calls, c.Stranded)
}
