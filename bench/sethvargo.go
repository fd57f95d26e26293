package bench

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

// sethvargo is the memorystore of github.com/sethvargo/go-limiter: a bucket for each
// key, refilled at the end of every interval. Its sweep locks the whole store. It is
// disabled here, which favours this row.
type sethvargo struct{ store limiter.Store }

// longestRefill is the longest refill interval at the rates of a single key. At the end
// of an interval, v0.7.1 adds interval in nanoseconds / tokens tokens. That refills all
// tokens only while tokens² ≤ interval in nanoseconds.
const longestRefill = 4 * time.Microsecond

func newSethvargo(limit Limit, keys int) (Limiter, error) {
	tokens, interval := limit.Burst, limit.Window()
	if limit.PerSecond() > 1 {
		interval = min(interval, longestRefill)
		tokens = max(1, int(limit.PerSecond()*interval.Seconds()))
	}
	store, err := memorystore.New(&memorystore.Config{
		Tokens: uint64(tokens), Interval: interval,
		SweepInterval: 1000 * time.Hour, SweepMinTTL: 1000 * time.Hour,
		InitialAlloc: keys,
	})
	return sethvargo{store}, err
}

func (s sethvargo) Allow(key string) bool {
	_, _, _, ok, err := s.store.Take(context.Background(), key)
	return err == nil && ok
}

// Drain sets a bucket without tokens. Its interval is so long that it is not refilled
// during a measurement.
func (s sethvargo) Drain(key string) {
	_ = s.store.Set(context.Background(), key, 0, Budget.Window())
}
