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

// histories is how many keys have their history checked under each fault; 500 take
// about five minutes.
var histories = flag.Int("histories", 0, "keys whose history is checked under each fault; 0: few")

// faultSuite returns a suite over stores with these options, opened at url.
func faultSuite(url string, opts redisstore.Options) faults.Suite {
	s := faults.Suite{Histories: *histories, Open: func(t *testing.T) headgate.Store { return open(t, url, &opts) }}
	if s.Histories == 0 {
		s.Histories, s.Keys = 36, 36
	}
	return s
}

// noDenialCache disables the denial cache: another process may refund without this
// one's knowledge.
var noDenialCache = redisstore.Options{DenialCacheTTL: -1}

// runFaults checks histories under each fault, and histories with holds, with overrides
// and with bans. In a short test, these are under the first fault only.
func runFaults(t *testing.T, s faults.Suite, all ...faults.Fault) {
	s.Run(t, all...)
	s.Holds = true
	if *histories == 0 {
		s.Histories, s.Keys = 12, 12
	}
	if testing.Short() {
		all = all[:1]
	}
	t.Run("holds", func(t *testing.T) { s.Run(t, all...) })
	s.Holds, s.Overrides = false, true
	t.Run("overrides", func(t *testing.T) { s.Run(t, all...) })
	s.Overrides, s.Bans = false, true
	t.Run("bans", func(t *testing.T) { s.Run(t, all...) })
}

// transparentDeadline is the deadline under transparent faults, for a busy machine.
const transparentDeadline = 10 * time.Second

// action converts functions that fail only by ending the test to a fault action.
func action(all ...func()) func(context.Context) error {
	return func(context.Context) error {
		for _, do := range all {
			do()
		}
		return nil
	}
}

// repeatedly calls do at an interval, from the injection to the end of the fault.
func repeatedly(every time.Duration, do func() error) (strike, heal func(context.Context) error) {
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

func TestHistoriesServerKilled(t *testing.T) {
	t.Parallel()
	synced := testserver.Redis(t, testserver.AppendFsyncAlways())
	runFaults(t, faultSuite("redis://"+synced.Addr(), noDenialCache), faults.Fault{
		Name: "killed, with every write on disk", MustFail: true, Inject: action(synced.Kill), Recover: action(synced.Start),
	})
	volatile := testserver.Redis(t)
	runFaults(t, faultSuite("redis://"+volatile.Addr(), noDenialCache), faults.Fault{
		Name: "killed, with nothing on disk", MustFail: true, MayLose: history.AllState, Inject: action(volatile.Kill), Recover: action(volatile.Start),
	})
}

// serverFaults are faults of a server that loses nothing. // T7
func serverFaults(server *testserver.RedisServer) []faults.Fault {
	flush, flushed := repeatedly(10*time.Millisecond, func() error { _, err := server.Try("SCRIPT", "FLUSH"); return err })
	kill, killed := repeatedly(20*time.Millisecond, func() error { _, err := server.Try("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); return err })
	return []faults.Fault{
		{Name: "stopped", MustFail: true, Duration: 300 * time.Millisecond, Inject: action(server.Stop), Recover: action(server.Continue)},
		{Name: "scripts flushed", Transparent: true, Duration: 200 * time.Millisecond, Deadline: transparentDeadline, Inject: flush, Recover: flushed},
		{Name: "clients killed", Duration: 200 * time.Millisecond, Inject: kill, Recover: killed},
	}
}

// networkFaults are faults of the network. // T8
func networkFaults(proxy *testserver.FaultProxy) []faults.Fault {
	const latency = 200 * time.Millisecond
	slow, lose := func() { proxy.SetLatency(latency) }, func() { proxy.DropRepliesTo(8, "EVALSHA") }
	return []faults.Fault{
		{Name: "cut", MustFail: true, Inject: action(proxy.Cut), Recover: action(proxy.Restore)},
		{Name: "slow", Transparent: true, Duration: 2 * latency, Deadline: transparentDeadline, Inject: action(slow), Recover: action(proxy.Restore)},
		{Name: "slower than the deadline", MustFail: true, Duration: 2 * latency, Inject: action(slow), Recover: action(proxy.Restore)},
		{Name: "reset", Inject: action(proxy.Reset)},
		{Name: "replies lost", MustFail: true, Duration: 200 * time.Millisecond, Deadline: time.Second, Inject: action(lose), Recover: action(proxy.Restore)},
		{Name: "silent", MustFail: true, Duration: 300 * time.Millisecond, Inject: action(func() { proxy.Blackhole(true) }), Recover: action(proxy.Restore)},
	}
}

func TestHistoriesServerFaults(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	runFaults(t, faultSuite("redis://"+server.Addr(), noDenialCache), serverFaults(server)...)
}

func TestHistoriesNetworkFaults(t *testing.T) {
	t.Parallel()
	proxy := testserver.Proxy(t, testserver.Redis(t).Addr())
	runFaults(t, faultSuite("redis://"+proxy.Addr(), noDenialCache), networkFaults(proxy)...)
}

// The suite refunds nothing, as a store with a denial cache does not see other
// processes' refunds.
func TestHistoriesDenialCache(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	proxy := testserver.Proxy(t, server.Addr())
	s := faultSuite("redis://"+proxy.Addr(), redisstore.Options{})
	s.TakesOnly = true
	s.Run(t, append(serverFaults(server), networkFaults(proxy)[4])...)
}

func TestHistoriesSentinel(t *testing.T) {
	t.Parallel()
	guarded := testserver.Sentinel(t)
	var dead *testserver.RedisServer
	url := fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(guarded.Addrs(), ","), guarded.MasterName())
	runFaults(t, faultSuite(url, noDenialCache), faults.Fault{
		Name: "master killed", MustFail: true, MayLose: history.LatestWrites,
		Inject: action(func() { dead = guarded.KillMaster(t) }), Recover: action(func() { dead.Start(); guarded.Wait(t) }),
	})
}

func TestHistoriesCluster(t *testing.T) {
	t.Parallel()
	cluster := testserver.Cluster(t, 3, 1)
	url := "redis+cluster://" + strings.Join(cluster.Addrs(), ",")
	together := noDenialCache
	together.Group = func(string) string { return "one slot for all keys, and so one call" }
	moving := &slotMigration{t: t, cluster: cluster}
	runFaults(t, faultSuite(url, together), faults.Fault{
		Name: "slot moved", Transparent: true, Duration: 300 * time.Millisecond, Deadline: transparentDeadline,
		Inject: action(moving.begin), Recover: action(moving.finish),
	})
	var dead *testserver.RedisServer
	var turn int
	// Another master each time: for a while masters do not vote on the same one again.
	slot := func() int {
		turn++
		return turn % 3 * 5461
	}
	runFaults(t, faultSuite(url, noDenialCache),
		faults.Fault{
			Name: "replica takes over", Deadline: time.Second,
			Inject: action(func() { cluster.Failover(t, slot()) }), Recover: action(func() { cluster.Wait(t) }),
		},
		faults.Fault{
			Name: "master killed", MustFail: true, MayLose: history.LatestWrites,
			Inject: action(func() { dead = cluster.KillMaster(t, slot()) }), Recover: action(func() { dead.Start(); cluster.Wait(t) }),
		})
}

// slotMigration moves the slot of all keys to the next node: first half of the keys,
// and after a while the rest.
type slotMigration struct {
	t         *testing.T
	cluster   *testserver.RedisCluster
	migration *testserver.Migration
}

func (m *slotMigration) begin() {
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

func (m *slotMigration) finish() { m.migration.Finish(m.t) }

// T1.
func TestCrowdOnOneKey(t *testing.T) {
	algorithms := model.Algorithms()
	if testing.Short() {
		algorithms = algorithms[:1]
	}
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			c := crowd.Crowd{Algorithm: a, Limit: headgate.MustParseLimit("200/500ms"), Duration: time.Second}
			c.Run(t, func(t *testing.T) string { return "redis://" + testserver.Redis(t).Addr() }, openStore)
		})
	}
}

func openStore(t *testing.T, url string) headgate.Store { return open(t, url, nil) }

// What is on disk before the reply is not spent twice, however often the server is
// killed.
func TestCrowdServerRestarts(t *testing.T) {
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
	}, openStore)
}

// T42. Units of killed processes are held until their holds have expired, and not longer.
func TestCrowdOfHolders(t *testing.T) {
	for a, limit := range map[headgate.Algorithm]string{
		headgate.Concurrency: "16 concurrent", headgate.TokenBucket: "16/366d", headgate.FixedWindow: "16/366d", headgate.SlidingLog: "16/366d",
	} {
		if testing.Short() && a != headgate.Concurrency {
			continue
		}
		t.Run(string(a), func(t *testing.T) {
			var server *testserver.RedisServer
			c := crowd.Holders{Algorithm: a, Limit: headgate.MustParseLimit(limit), Server: func(string) crowd.Server { return server }}
			c.Run(t, func(t *testing.T) string {
				server = testserver.Redis(t)
				return "redis://" + server.Addr()
			}, openStore)
		})
	}
}
