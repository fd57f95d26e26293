package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/storetest/crowd"
	"github.com/headgate/headgate/storetest/faults"
	"github.com/headgate/headgate/storetest/history"
	"github.com/headgate/headgate/storetest/model"
)

// histories is how many keys have their history judged under each fault; 500 take about five minutes.
var histories = flag.Int("histories", 0, "keys whose history is judged under each fault; 0: few")

// underFaults is a suite over stores with these options, opened at url.
func underFaults(url string, opts redisstore.Options) faults.Suite {
	s := faults.Suite{Histories: *histories, Open: func(t *testing.T) headgate.Store { return open(t, url, &opts) }}
	if s.Histories == 0 {
		s.Histories, s.Keys = 36, 36
	}
	return s
}

// forgetful remembers no denial: another process may give back what this one knows nothing of.
var forgetful = redisstore.Options{DenialCacheTTL: -1}

// unnoticed is the deadline under faults that nobody may notice, on a machine that may have much else to do.
const unnoticed = 10 * time.Second

// does makes a strike of what cannot fail but by ending the test.
func does(all ...func()) func(context.Context) error {
	return func(context.Context) error {
		for _, do := range all {
			do()
		}
		return nil
	}
}

// often does something every so often, from the strike to the end of the fault.
func often(every time.Duration, do func() error) (strike, heal func(context.Context) error) {
	var stop chan struct{}
	var done chan error
	strike = func(context.Context) error {
		stop, done = make(chan struct{}), make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				select {
				case <-stop:
					done <- nil
					return
				case <-time.After(every):
					err = do()
				}
			}
			done <- err
		}()
		return nil
	}
	heal = func(context.Context) error {
		close(stop)
		return <-done
	}
	return strike, heal
}

func TestHistoriesWithAServerThatIsKilled(t *testing.T) {
	synced := testserver.Redis(t, testserver.AppendFsyncAlways())
	underFaults("redis://"+synced.Addr(), forgetful).Run(t, faults.Fault{
		Name: "killed, with every write on disk", MustFail: true, Inject: does(synced.Kill), Recover: does(synced.Start),
	})
	volatile := testserver.Redis(t)
	underFaults("redis://"+volatile.Addr(), forgetful).Run(t, faults.Fault{
		Name: "killed, with nothing on disk", MustFail: true, MayLose: history.AllState, Inject: does(volatile.Kill), Recover: does(volatile.Start),
	})
}

// serverFaults are those of a server that loses nothing. // T7
func serverFaults(server *testserver.RedisServer) []faults.Fault {
	flush, flushed := often(10*time.Millisecond, func() error { _, err := server.Try("SCRIPT", "FLUSH"); return err })
	kill, killed := often(20*time.Millisecond, func() error { _, err := server.Try("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); return err })
	return []faults.Fault{
		{Name: "stopped", MustFail: true, Duration: 300 * time.Millisecond, Inject: does(server.Stop), Recover: does(server.Continue)},
		{Name: "scripts flushed", Transparent: true, Duration: 200 * time.Millisecond, Deadline: unnoticed, Inject: flush, Recover: flushed},
		{Name: "clients killed", Duration: 200 * time.Millisecond, Inject: kill, Recover: killed},
	}
}

// wireFaults are those of the network between. // T8
func wireFaults(wire *testserver.FaultProxy) []faults.Fault {
	const latency = 200 * time.Millisecond
	slow, lose := func() { wire.SetLatency(latency) }, func() { wire.DropRepliesTo(8, "EVALSHA") }
	return []faults.Fault{
		{Name: "cut", MustFail: true, Inject: does(wire.Cut), Recover: does(wire.Restore)},
		{Name: "slow", Transparent: true, Duration: 2 * latency, Deadline: unnoticed, Inject: does(slow), Recover: does(wire.Restore)},
		{Name: "slower than the deadline", MustFail: true, Duration: 2 * latency, Inject: does(slow), Recover: does(wire.Restore)},
		{Name: "reset", Inject: does(wire.Reset)},
		{Name: "replies lost", MustFail: true, Duration: 200 * time.Millisecond, Deadline: time.Second, Inject: does(lose), Recover: does(wire.Restore)},
		{Name: "silent", MustFail: true, Duration: 300 * time.Millisecond, Inject: does(func() { wire.Blackhole(true) }), Recover: does(wire.Restore)},
	}
}

func TestHistoriesWithAServerInTrouble(t *testing.T) {
	server := testserver.Redis(t)
	underFaults("redis://"+server.Addr(), forgetful).Run(t, serverFaults(server)...)
}

func TestHistoriesWithANetworkInTrouble(t *testing.T) {
	wire := testserver.Proxy(t, testserver.Redis(t).Addr())
	underFaults("redis://"+wire.Addr(), forgetful).Run(t, wireFaults(wire)...)
}

// TestHistoriesOfStoresThatRememberDenials gives nothing back, which is what such a store may not know of.
func TestHistoriesOfStoresThatRememberDenials(t *testing.T) {
	server := testserver.Redis(t)
	wire := testserver.Proxy(t, server.Addr())
	s := underFaults("redis://"+wire.Addr(), redisstore.Options{})
	s.TakesOnly = true
	s.Run(t, append(serverFaults(server), wireFaults(wire)[4])...)
}

func TestHistoriesBehindSentinels(t *testing.T) {
	guarded := testserver.Sentinel(t)
	var dead *testserver.RedisServer
	url := fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(guarded.Addrs(), ","), guarded.MasterName())
	underFaults(url, forgetful).Run(t, faults.Fault{
		Name: "master killed", MustFail: true, MayLose: history.LatestWrites,
		Inject: does(func() { dead = guarded.KillMaster(t) }), Recover: does(func() { dead.Start(); guarded.Wait(t) }),
	})
}

func TestHistoriesOnACluster(t *testing.T) {
	cluster := testserver.Cluster(t, 3, 1)
	url := "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
	together := forgetful
	together.Group = func(string) string { return "all in one slot, and so in one call" }
	moving := &slotOnTheMove{t: t, cluster: cluster}
	underFaults(url, together).Run(t, faults.Fault{
		Name: "slot moved", Transparent: true, Duration: 300 * time.Millisecond, Deadline: unnoticed,
		Inject: does(moving.begin), Recover: does(moving.finish),
	})
	var dead *testserver.RedisServer
	var turn int
	slot := func() int { // another master's each time: for a while masters do not vote on the same one again
		turn++
		return turn % 3 * 5461
	}
	underFaults(url, forgetful).Run(t,
		faults.Fault{
			Name: "replica takes over", Deadline: time.Second,
			Inject: does(func() { cluster.Failover(t, slot()) }), Recover: does(func() { cluster.Wait(t) }),
		},
		faults.Fault{
			Name: "master killed", MustFail: true, MayLose: history.LatestWrites,
			Inject: does(func() { dead = cluster.KillMaster(t, slot()) }), Recover: does(func() { dead.Start(); cluster.Wait(t) }),
		})
}

// slotOnTheMove moves the slot in which all keys lie to the next node: half of the keys first, then, after a while, the rest.
type slotOnTheMove struct {
	t         *testing.T
	cluster   *testserver.RedisCluster
	migration *testserver.Migration
}

func (m *slotOnTheMove) begin() {
	masters := m.cluster.Nodes()[:3]
	for i, from := range masters {
		keys := from.Do(m.t, "KEYS", "*").Strings()
		if len(keys) == 0 {
			continue
		}
		m.migration = m.cluster.StartMigration(m.t, testserver.Slot(keys[0]), masters[(i+1)%len(masters)])
		m.migration.MoveKeys(m.t, len(keys)/2)
		return
	}
	m.t.Fatal("no slot to move: there are no keys")
}

func (m *slotOnTheMove) finish() { m.migration.Finish(m.t) }

// TestCrowdOnOneKey: T1.
func TestCrowdOnOneKey(t *testing.T) {
	for _, a := range model.Algorithms() {
		t.Run(string(a), func(t *testing.T) {
			c := crowd.Crowd{Algorithm: a, Limit: headgate.MustParseLimit("200/500ms"), Duration: time.Second}
			c.Run(t, func(t *testing.T) string { return "redis://" + testserver.Redis(t).Addr() }, openInCrowd)
		})
	}
}

func openInCrowd(t *testing.T, url string) headgate.Store { return open(t, url, nil) }

// TestCrowdOverRestarts: what is on disk before it is answered is not spent twice, however often the server dies.
func TestCrowdOverRestarts(t *testing.T) {
	restarts := 5
	if *histories > 0 {
		restarts = 50
	}
	var server *testserver.RedisServer
	c := crowd.Crowd{
		Algorithm: headgate.TokenBucket, Limit: headgate.MustParseLimit("400/1s burst 50"), AllowErrors: true,
		Duration: time.Duration(restarts) * 300 * time.Millisecond,
	}
	c.During = func() {
		end := time.Now().Add(c.Duration)
		for range restarts {
			for calls := 0; calls < 100 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				calls += scriptCalls(t, server)
			}
			server.Kill()
			server.Start()
		}
	}
	c.Run(t, func(t *testing.T) string {
		server = testserver.Redis(t, testserver.AppendFsyncAlways())
		return "redis://" + server.Addr()
	}, openInCrowd)
}
