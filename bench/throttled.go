package bench

import (
	"context"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

// throttledGCRA is the GCRA limiter of github.com/throttled/throttled/v2 with its
// memstore in the faster form: a plain map without a maximum size. If two goroutines
// conflict on a key too often, the limiter returns an error, which counts as a denial
// here.
type throttledGCRA struct {
	limiter *throttled.GCRARateLimiterCtx
	burst   int
}

func newThrottled(limit Limit, _ int) (Limiter, error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(limit.Count, limit.Per), MaxBurst: limit.Burst - 1,
	})
	return throttledGCRA{l, limit.Burst}, err
}

func (t throttledGCRA) Allow(key string) bool {
	limited, _, err := t.limiter.RateLimitCtx(context.Background(), key, 1)
	return err == nil && !limited
}

func (t throttledGCRA) Drain(key string) {
	_, _, _ = t.limiter.RateLimitCtx(context.Background(), key, t.burst)
}
