package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/storetest/crowd"
)

// Eight processes use one key in a Redis Cluster. The master of this key is killed, and
// its replica takes over.
func TestLeasesAcrossClusterFailover(t *testing.T) {
	if runChild(t) {
		return
	}
	t.Run("no lost writes", func(t *testing.T) {
		c, g := startClusterFailover(t)
		g.killHolder()
		freeze(t, c.master, 1)
		c.master.Kill()
		killed := time.Now()
		c.AwaitMaster(t, c.slot, c.replicas...)
		changed := time.Now()
		took := g.awaitLeases(changed)
		g.awaitUnits(1000)
		for _, child := range g.children {
			child.kill()
		}
		r := g.read()
		r.log = append(r.log, g.takeAfterTTL(c.MasterOf(t, c.slot))...)
		g.check(r)
		t.Logf("%d units were allowed; the failover took %v, and all processes had leases %v after it",
			r.units(), changed.Sub(killed).Round(time.Millisecond), took)
	})
	if testing.Short() {
		return // another cluster takes as long again
	}
	t.Run("lost writes", func(t *testing.T) {
		c, g := startClusterFailover(t)
		cut, killed := g.killWithWritesLost(c.master, c.replicas)
		c.AwaitMaster(t, c.slot, c.replicas...)
		g.awaitLeases(time.Now())
		r := g.drain()
		g.checkExcess(r, r.between(cut, killed))
	})
}

// clusterOfKey is a cluster, and the nodes that have the key of a group.
type clusterOfKey struct {
	*testserver.RedisCluster
	slot     int
	master   *testserver.RedisServer
	replicas []*testserver.RedisServer
}

func startClusterFailover(t *testing.T) (*clusterOfKey, *group) {
	t.Helper()
	c := &clusterOfKey{RedisCluster: testserver.Cluster(t, 3, 1)}
	g := newGroup(t, "redis+cluster://"+strings.Join(c.Addrs(), ","), headgate.TokenBucket, failoverLimit, 2000)
	g.startAll()
	g.awaitLeases(time.Time{})
	for _, n := range c.Nodes()[:3] {
		if keys := n.Do(t, "KEYS", "*").Strings(); len(keys) > 0 {
			c.slot = testserver.Slot(keys[0])
			c.master, c.replicas = n, c.ReplicasOf(t, c.slot)
		}
	}
	if c.master == nil || c.MasterOf(t, c.slot) != c.master || len(c.replicas) != 1 {
		t.Fatalf("the master of slot %d has %d replicas, want 1", c.slot, len(c.replicas))
	}
	return c, g
}

// takeAfterTTL waits for one TTL of the clock of master, after the processes were killed.
// The whole share can then be leased again. It leases the share, and takes all other
// units.
func (g *group) takeAfterTTL(master *testserver.RedisServer) []admission {
	g.t.Helper()
	master.AwaitDisconnected(g.t)
	for begun := master.Time(g.t); master.Time(g.t).Sub(begun) <= headgate.DefaultLeaseTTL; {
		time.Sleep(time.Millisecond)
	}
	inner, b := g.openWithoutLeases()
	share := headgate.LeaseSettings{Share: headgate.DefaultLeaseShare}.Max(g.job.limit().Capacity())
	before := time.Now()
	got, err := inner.ApplyLease(ctx, headgate.StoreClock, headgate.LeaseOp{
		Bound: b, Key: "key", ID: headgate.NewHoldID(), Want: share, Max: share, TTL: time.Minute,
	})
	if err != nil || got.Units != share {
		g.t.Errorf("one TTL after all processes were killed: got a lease of %d units, error %v, want %d", got.Units, err, share)
	}
	leased := admission{Admission: crowd.Admission{Before: before.UnixMicro(), After: time.Now().UnixMicro() + 1, Cost: got.Units}}
	return append(takeAll(g.t, b), leased)
}
