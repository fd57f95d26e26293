package bench

import (
	"context"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// ulule is github.com/ulule/limiter/v3 with its memory store: a fixed window that
// begins at the first request for a key. It builds a prefixed key for every check. The
// store's cleanup, which iterates over all keys, is disabled, which favours this row.
type ulule struct {
	limiter *limiter.Limiter
	burst   int64
}

func newUlule(limit Limit, _ int) (Limiter, error) {
	store := memory.NewStoreWithOptions(limiter.StoreOptions{
		Prefix: limiter.DefaultPrefix, CleanUpInterval: 1000 * time.Hour,
	})
	return ulule{
		limiter: limiter.New(store, limiter.Rate{Period: limit.Window(), Limit: int64(limit.Burst)}),
		burst:   int64(limit.Burst),
	}, nil
}

func (u ulule) Allow(key string) bool {
	c, err := u.limiter.Get(context.Background(), key)
	return err == nil && !c.Reached
}

func (u ulule) Drain(key string) { _, _ = u.limiter.Increment(context.Background(), key, u.burst) }
