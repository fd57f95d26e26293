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

// histories is how many keys have their history judged under each fault; 500 take about a minute.
var histories = flag.Int("histories", 0, "keys whose history is judged under each fault; 0: few")

func underFaults(addr string) faults.Suite {
	s := faults.Suite{Histories: *histories, Open: func(t *testing.T) headgate.Store { return open(t, nil, addr) }}
	if s.Histories == 0 {
		s.Histories, s.Keys = 36, 36
	}
	return s
}

// unnoticed is the deadline under faults that nobody may notice, on a machine that may have much else to do.
const unnoticed = 10 * time.Second

// does makes a strike of what cannot fail but by ending the test.
func does(do func()) func(context.Context) error {
	return func(context.Context) error {
		do()
		return nil
	}
}

func TestHistoriesWithAServerInTrouble(t *testing.T) {
	server := testserver.Memcached(t)
	underFaults(server.Addr()).Run(t,
		faults.Fault{Name: "killed", MustFail: true, MayLose: history.AllState, Inject: does(server.Kill), Recover: does(server.Start)},
		faults.Fault{Name: "stopped", MustFail: true, Duration: 300 * time.Millisecond, Inject: does(server.Stop), Recover: does(server.Continue)},
		faults.Fault{
			Name: "flushed", Transparent: true, MayLose: history.AllState, Deadline: unnoticed, Duration: time.Millisecond,
			Inject: func(context.Context) error { _, err := server.Try("flush_all"); return err },
		},
	)
}

func TestHistoriesWithANetworkInTrouble(t *testing.T) {
	const latency = 200 * time.Millisecond
	wire := testserver.Proxy(t, testserver.Memcached(t).Addr())
	underFaults(wire.Addr()).Run(t,
		faults.Fault{Name: "cut", MustFail: true, Inject: does(wire.Cut), Recover: does(wire.Restore)},
		faults.Fault{
			Name: "slower than the deadline", MustFail: true, Duration: 2 * latency,
			Inject: does(func() { wire.SetLatency(latency) }), Recover: does(wire.Restore),
		},
		faults.Fault{Name: "reset", Inject: does(wire.Reset)},
		faults.Fault{
			Name: "replies to writes lost", MustFail: true, Duration: 200 * time.Millisecond, Deadline: time.Second,
			Inject: does(func() { wire.DropRepliesTo(8, "cas ") }), Recover: does(wire.Restore),
		},
		faults.Fault{
			Name: "silent", MustFail: true, Duration: 300 * time.Millisecond,
			Inject: does(func() { wire.Blackhole(true) }), Recover: does(wire.Restore),
		},
	)
}

// TestCrowdOnOneKey: many processes that change one key get in each other's way, and are told so; never is more admitted.
func TestCrowdOnOneKey(t *testing.T) {
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.FixedWindow, headgate.SlidingLog} {
		t.Run(string(a), func(t *testing.T) {
			c := crowd.Crowd{Algorithm: a, Limit: headgate.MustParseLimit("200/500ms"), Duration: time.Second, AllowErrors: true}
			c.Run(t, func(t *testing.T) string { return testserver.Memcached(t).Addr() }, func(t *testing.T, addr string) headgate.Store {
				return open(t, &memcachedstore.Options{MaxTries: 1000}, addr)
			})
		})
	}
}
