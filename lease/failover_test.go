package lease_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/storetest/crowd"
	"github.com/headgate/headgate/storetest/model"
)

// The refill of this limit is small, so that each lost write is visible.
const failoverLimit = "100000/1d"

// Eight processes use one key in a Sentinel group that replaces its master.
func TestLeasesAcrossFailover(t *testing.T) {
	if runChild(t) {
		return
	}
	t.Run("no lost writes", func(t *testing.T) {
		s, g := startFailover(t)
		begun := time.Now()
		freeze(t, s.Master(t), len(s.Nodes())-1)
		s.Failover(t)
		changed := time.Now()
		took := g.awaitLeases(changed)
		r := g.drain()
		g.check(r)
		t.Logf("%d units were allowed; the failover took %v, and all processes had leases %v after it", r.units(), changed.Sub(begun).Round(time.Millisecond), took)
	})
	t.Run("lost writes", func(t *testing.T) {
		s, g := startFailover(t)
		replicas := s.Nodes()[1:]
		cut, killed := g.killWithWritesLost(s.Master(t), replicas)
		s.Failover(t)
		g.awaitLeases(time.Now())
		r := g.drain()
		g.checkExcess(r, r.between(cut, killed))
	})
}

// killWithWritesLost kills master after the processes have made writes that its replicas
// do not have. These writes are of the time from cut to killed.
func (g *group) killWithWritesLost(master *testserver.RedisServer, replicas []*testserver.RedisServer) (cut, killed time.Time) {
	g.t.Helper()
	cut = time.Now()
	freeze(g.t, master, len(replicas))
	for _, r := range replicas { // they cannot connect again with a wrong password
		r.Do(g.t, "CONFIG", "SET", "masteruser", "nobody", "masterauth", "wrong")
		r.Do(g.t, "CLIENT", "KILL", "TYPE", "master")
	}
	master.Do(g.t, "CONFIG", "SET", "min-replicas-to-write", "0")
	g.await("writes that will be lost", func(r report) bool { return r.between(cut, time.Now()) > 3000 })
	master.Kill()
	killed = time.Now()
	for _, r := range replicas {
		r.Do(g.t, "CONFIG", "SET", "masteruser", "", "masterauth", "")
	}
	return cut, killed
}

func startFailover(t *testing.T) (*testserver.RedisSentinel, *group) {
	t.Helper()
	s := testserver.Sentinel(t, testserver.Steady())
	g := newGroup(t, "redis+sentinel://"+strings.Join(s.Addrs(), ",")+"/"+s.MasterName(), headgate.TokenBucket, failoverLimit, 2000)
	g.startAll()
	g.awaitLeases(time.Time{})
	return s, g
}

// freeze makes master reject further writes, and waits until its replicas have all writes
// before.
func freeze(t *testing.T, master *testserver.RedisServer, replicas int) {
	t.Helper()
	master.Do(t, "CONFIG", "SET", "min-replicas-to-write", "100")
	written := replicationOffsets(t, master, `master_repl_offset:(\d+)`)[0]
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		current := 0
		for _, offset := range replicationOffsets(t, master, `,offset=(\d+)`) {
			if offset >= written {
				current++
			}
		}
		if current == replicas {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d of %d replicas have all writes after a minute", current, replicas)
		}
	}
}

func replicationOffsets(t *testing.T, master *testserver.RedisServer, pattern string) (found []int64) {
	t.Helper()
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(master.Do(t, "INFO", "replication").Text, -1) {
		found = append(found, integer(t, m[1]))
	}
	return found
}

func integer(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// between returns the units that may have been admitted between two times.
func (r report) between(from, to time.Time) (sum int64) {
	for _, a := range r.log {
		if a.After >= from.UnixMicro() && a.Before <= to.UnixMicro() {
			sum += a.Cost
		}
	}
	return sum
}

// drain takes all units that remain, without leases, while the processes run. Then it
// ends the processes, and takes the units that they return. The report includes these
// units.
func (g *group) drain() report {
	g.t.Helper()
	_, b := g.openWithoutLeases()
	taken := takeAll(g.t, b)
	r := g.stopAll()
	r.log = append(append(r.log, taken...), takeAll(g.t, b)...)
	return r
}

// openWithoutLeases returns the store of the processes, which does not lease the limit.
func (g *group) openWithoutLeases() (*redisstore.Store, headgate.Bound) {
	g.t.Helper()
	inner, err := redisstore.Open(g.job.URL, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = inner.Close() })
	return inner, bind(g.t, inner, g.job.rule())
}

// takeAll takes units until one is denied.
func takeAll(t *testing.T, b headgate.Bound) (taken []admission) {
	t.Helper()
	begun := time.Now()
	for cost := int64(10_000); cost > 0; {
		before := time.Now()
		d, err := b.Apply(ctx, headgate.StoreClock, "key", headgate.Take, cost)
		switch {
		case err != nil && time.Since(begun) > time.Minute:
			t.Fatal(err)
		case err != nil:
		case d.Allowed:
			taken = append(taken, admission{Admission: crowd.Admission{Before: before.UnixMicro(), After: time.Now().UnixMicro() + 1, Cost: cost}})
		default:
			cost /= 10
		}
	}
	return taken
}

// checkExcess fails the test if the processes admitted more units than the limit, the
// lost units and the share that may be on lease. A failover without leases may allow the
// lost units again.
func (g *group) checkExcess(r report, lost int64) {
	g.t.Helper()
	first, last := r.log[0].Before, r.log[0].After
	for _, a := range r.log {
		first, last = min(first, a.Before), max(last, a.After)
	}
	share := headgate.LeaseSettings{Share: headgate.DefaultLeaseShare}.Max(g.job.limit().Capacity())
	excess := r.units() - model.UpperBoundOf(g.job.Algorithm, g.job.limit())(first, last)
	if excess <= 0 || excess > lost+share {
		g.t.Errorf("%d units more than the limit were allowed, want 1 to %d: the lost %d and a share of %d", excess, lost+share, lost, share)
	}
	g.t.Logf("%d units were allowed, %d more than the limit, after the writes of %d units were lost", r.units(), excess, lost)
}
