package bench

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

// sethvargo is github.com/sethvargo/go-limiter's memorystore: a bucket for each key that is filled up at the end of every
// interval. Its sweep, which locks the whole store, is put off: it would cost this row and favour the others.
type sethvargo struct{ store limiter.Store }

// longestRefill is the longest interval at the rates of a single key. At the end of an interval v0.7.1 adds as many tokens as
// the interval has nanoseconds for each, which is all of them only while tokens² ≤ nanoseconds.
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

// Drain gives the key a bucket without tokens; the interval is long enough that it is never filled up.
func (s sethvargo) Drain(key string) {
	_ = s.store.Set(context.Background(), key, 0, Budget.Window())
}
