package lease_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/storetest/crowd"
)

// holders are eight processes with eight callers each that hold slots of one key. Half of
// the slots may be on lease.
func holders() crowd.Holders {
	c := crowd.Holders{
		Algorithm: headgate.Concurrency, Limit: headgate.MustParseLimit("40 concurrent"),
		Lease: headgate.LeaseSettings{Share: 50, TTL: 250 * time.Millisecond},
	}
	if testing.Short() {
		c.Kills = 4
	}
	return c
}

// openDrifting returns a store around inner, whose clock runs at 99 % to 101 % of the
// speed of the store's clock.
func openDrifting(t *testing.T, inner headgate.LeaseStore, err error) headgate.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, inner, nil)
	lease.SetClockRate(s, 0.99+rand.Float64()*0.02)
	return s
}

// Processes that hold slots are killed. Never more slots than the limit are under holds
// that have not expired, and all slots are available one TTL after the last kill.
func TestSlotsOfKilledProcessesOnRedis(t *testing.T) {
	var server *testserver.RedisServer
	c := holders()
	c.Server = func(string) crowd.Server { return server }
	c.Run(t, func(t *testing.T) string {
		server = testserver.Redis(t)
		return "redis://" + server.Addr()
	}, func(t *testing.T, address string) headgate.Store {
		s, err := redisstore.Open(address, nil)
		return openDrifting(t, s, err)
	})
}

// TestSlotsOfKilledProcessesOnMemcached is the same test on memcached.
func TestSlotsOfKilledProcessesOnMemcached(t *testing.T) {
	var server *testserver.MemcachedServer
	c := holders()
	c.Server = func(string) crowd.Server { return server }
	c.Run(t, func(t *testing.T) string {
		server = testserver.Memcached(t)
		return server.Addr()
	}, func(t *testing.T, address string) headgate.Store {
		s, err := memcachedstore.New(&memcachedstore.Options{MaxTries: 1000}, address)
		return openDrifting(t, s, err)
	})
}

// BenchmarkSlots opens and ends a hold of one slot on Redis, with and without leases.
func BenchmarkSlots(b *testing.B) {
	address := "redis://" + testserver.Redis(b).Addr()
	for name, settings := range map[string]headgate.LeaseSettings{"redis": {}, "leased": {Share: 50, TTL: time.Second}} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprint(name, "-", callers), func(b *testing.B) {
				inner, err := redisstore.Open(address, nil)
				if err != nil {
					b.Fatal(err)
				}
				p := headgate.MustNamedPolicy(b.Name(), "200 concurrent")
				p.Lease = settings
				l := newLimiter(b, open(b, inner, nil), p)
				for begun := time.Now(); settings.Enabled() && time.Since(begun) < time.Second/2; {
					cancel(b, hold(b, l, 1, time.Minute))
				}
				b.ReportAllocs()
				b.SetParallelism(callers)
				b.ResetTimer()
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						if h, err := l.Hold(ctx, "key", 1, time.Minute); err == nil {
							_, _ = h.Cancel(ctx)
						}
					}
				})
			})
		}
	}
}
