package bench

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

// sethvargo is the memorystore of github.com/sethvargo/go-limiter. It has a bucket for
// each key, which is refilled at the end of every interval. The store's sweep, which
// locks the whole store, is disabled, which favours this row.
type sethvargo struct{ store limiter.Store }

// longestRefill is the longest refill interval for which go-limiter v0.7.1 refills all
// tokens, at the rates that are used for a single key. At the end of an interval it
// adds I / tokens tokens, where I is the interval in nanoseconds. That refills all
// tokens only as long as tokens² ≤ I.
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

// Drain replaces the bucket of key by a bucket without tokens. The new bucket has so
// long an interval that it is not refilled during a measurement.
func (s sethvargo) Drain(key string) {
	_ = s.store.Set(context.Background(), key, 0, Budget.Window())
}
