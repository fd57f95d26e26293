package memcachedstore_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/storetest/crowd"
	"github.com/headgate/headgate/storetest/faults"
	"github.com/headgate/headgate/storetest/history"
)

// histories is how many keys have their history checked under each fault; 500 take
// about a minute.
var histories = flag.Int("histories", 0, "keys whose history is checked under each fault; 0: few")

func faultSuite(addr string) faults.Suite {
	s := faults.Suite{Histories: *histories, NoResets: true, Open: func(t *testing.T) headgate.Store { return open(t, nil, addr) }}
	if s.Histories == 0 {
		s.Histories, s.Keys = 36, 36
	}
	return s
}

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

// action converts a function that fails only by ending the test to a fault action.
func action(do func()) func(context.Context) error {
	return func(context.Context) error {
		do()
		return nil
	}
}

func TestHistoriesServerFaults(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	runFaults(t, faultSuite(server.Addr()),
		faults.Fault{Name: "killed", MustFail: true, MayLose: history.AllState, Inject: action(server.Kill), Recover: action(server.Start)},
		faults.Fault{Name: "stopped", MustFail: true, Duration: 300 * time.Millisecond, Inject: action(server.Stop), Recover: action(server.Continue)},
	)
	// There are no histories with holds: if the state is lost between the two writes of a
	// commit, the record is kept, and a repeated commit is answered as replayed.
	faultSuite(server.Addr()).Run(t,
		faults.Fault{
			Name: "flushed", Transparent: true, MayLose: history.AllState, Deadline: transparentDeadline, Duration: time.Millisecond,
			Inject: func(context.Context) error { _, err := server.Try("flush_all"); return err },
		},
	)
}

func TestHistoriesNetworkFaults(t *testing.T) {
	t.Parallel()
	const latency = 200 * time.Millisecond
	proxy := testserver.Proxy(t, testserver.Memcached(t).Addr())
	runFaults(t, faultSuite(proxy.Addr()),
		faults.Fault{Name: "cut", MustFail: true, Inject: action(proxy.Cut), Recover: action(proxy.Restore)},
		faults.Fault{
			Name: "slower than the deadline", MustFail: true, Duration: 2 * latency,
			Inject: action(func() { proxy.SetLatency(latency) }), Recover: action(proxy.Restore),
		},
		faults.Fault{Name: "reset", Inject: action(proxy.Reset)},
		faults.Fault{
			Name: "replies to writes lost", MustFail: true, Duration: 200 * time.Millisecond, Deadline: time.Second,
			Inject: action(func() { proxy.DropRepliesTo(8, "cas ") }), Recover: action(proxy.Restore),
		},
		faults.Fault{
			Name: "silent", MustFail: true, Duration: 300 * time.Millisecond,
			Inject: action(func() { proxy.Blackhole(true) }), Recover: action(proxy.Restore),
		},
	)
}

// Many processes that change one key have conflicts, and some calls fail; never more
// than the limit is allowed.
func TestCrowdOnOneKey(t *testing.T) {
	algorithms := []headgate.Algorithm{headgate.TokenBucket, headgate.FixedWindow, headgate.SlidingLog}
	if testing.Short() {
		algorithms = algorithms[:1]
	}
	for _, a := range algorithms {
		t.Run(string(a), func(t *testing.T) {
			c := crowd.Crowd{Algorithm: a, Limit: headgate.MustParseLimit("200/500ms"), Duration: time.Second, AllowErrors: true}
			c.Run(t, func(t *testing.T) string { return testserver.Memcached(t).Addr() }, func(t *testing.T, addr string) headgate.Store {
				return open(t, &memcachedstore.Options{MaxTries: 1000}, addr)
			})
		})
	}
}

// T42. Units of killed processes are held until their holds have expired, and not longer.
func TestCrowdOfHolders(t *testing.T) {
	for a, limit := range map[headgate.Algorithm]string{headgate.Concurrency: "16 concurrent", headgate.TokenBucket: "16/366d"} {
		if testing.Short() && a != headgate.Concurrency {
			continue
		}
		t.Run(string(a), func(t *testing.T) {
			var server *testserver.MemcachedServer
			c := crowd.Holders{Algorithm: a, Limit: headgate.MustParseLimit(limit), Server: func(string) crowd.Server { return server }}
			c.Run(t, func(t *testing.T) string {
				server = testserver.Memcached(t)
				return server.Addr()
			}, func(t *testing.T, addr string) headgate.Store {
				return open(t, &memcachedstore.Options{MaxTries: 1000}, addr)
			})
		})
	}
}
