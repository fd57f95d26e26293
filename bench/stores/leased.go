package stores

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/redisstore"
)

// OneHotKey returns the rows that are compared when several processes share one key. The
// rows are compared with redis_rate.
func OneHotKey() []Row {
	return []Row{
		{Name: "headgate, leased", New: leasedRow(headgate.TokenBucket)},
		{Name: "headgate, leased, fixed window", New: leasedRow(headgate.FixedWindow), Window: true},
		{Name: "headgate", New: redisstoreRow(batched)},
		{Name: "redis_rate", New: newRedisRate},
		{Name: "synchronize every 10 ms", New: syncLaterRow(10 * time.Millisecond), Window: true},
		{Name: "synchronize every 50 ms", New: syncLaterRow(50 * time.Millisecond), Window: true},
	}
}

// leasedRow returns a row whose policy is leased with the default settings. A fixed
// window has the length and the maximum of [bench.Limit.Window].
func leasedRow(a headgate.Algorithm) func(string, bench.Limit) (Limiter, error) {
	return func(addr string, limit bench.Limit) (Limiter, error) {
		inner, err := redisstore.Open("redis://"+addr, &redisstore.Options{Namespace: "leased"})
		if err != nil {
			return nil, err
		}
		store, err := lease.New(inner, nil)
		if err != nil {
			return nil, err
		}
		p := policy(limit)
		p.Algorithm, p.Lease = a, headgate.LeaseSettings{Share: headgate.DefaultLeaseShare}
		if a == headgate.FixedWindow {
			p.Limits = []headgate.Limit{{Rate: int64(limit.Burst), Period: limit.Window()}}
		}
		return newLimiter(store, p)
	}
}
