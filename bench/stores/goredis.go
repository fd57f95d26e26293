package stores

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	throttledlib "github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ululelib "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/headgate/headgate/bench"
)

// newGoRedis returns a client with a connection for each caller. With go-redis's
// default of ten connections per processor, some callers would wait for a connection.
func newGoRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 64, MinIdleConns: 64})
}

// redisRate is github.com/go-redis/redis_rate/v10: GCRA in a Redis script, with
// double-precision numbers.
type redisRate struct {
	client  *redis.Client
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func newRedisRate(addr string, limit bench.Limit) (Limiter, error) {
	c := newGoRedis(addr)
	return &redisRate{c, redis_rate.NewLimiter(c), redis_rate.Limit{Rate: limit.Count, Period: limit.Per, Burst: limit.Burst}}, nil
}

func (r *redisRate) Allow(ctx context.Context, key string) (bool, error) {
	result, err := r.limiter.Allow(ctx, key, r.limit)
	return err == nil && result.Allowed > 0, err
}

func (r *redisRate) Close() error { return r.client.Close() }

// ulule is github.com/ulule/limiter/v3 with its Redis store: a fixed window that begins
// at the first request for a key.
type ulule struct {
	client  *redis.Client
	limiter *ululelib.Limiter
}

func newUlule(addr string, limit bench.Limit) (Limiter, error) {
	c := newGoRedis(addr)
	store, err := ululeredis.NewStoreWithOptions(c, ululelib.StoreOptions{Prefix: "ulule"})
	if err != nil {
		return nil, err
	}
	return &ulule{c, ululelib.New(store, ululelib.Rate{Period: limit.Window(), Limit: int64(limit.Burst)})}, nil
}

func (u *ulule) Allow(ctx context.Context, key string) (bool, error) {
	result, err := u.limiter.Get(ctx, key)
	return err == nil && !result.Reached, err
}

func (u *ulule) Close() error { return u.client.Close() }

// throttled is github.com/throttled/throttled/v2 with its go-redis store. It sends TIME
// and GET in a pipeline, computes GCRA in Go, and runs a script that compares and sets
// the value. If a concurrent call has changed the value, it retries, up to ten times,
// and then returns an error.
type throttled struct {
	client  *redis.Client
	limiter *throttledlib.GCRARateLimiterCtx
}

func newThrottled(addr string, limit bench.Limit) (Limiter, error) {
	c := newGoRedis(addr)
	store, err := goredisstore.NewCtx(c, "throttled:")
	if err != nil {
		return nil, err
	}
	l, err := throttledlib.NewGCRARateLimiterCtx(store, throttledlib.RateQuota{
		MaxRate: throttledlib.PerDuration(limit.Count, limit.Per), MaxBurst: limit.Burst - 1,
	})
	return &throttled{c, l}, err
}

func (t *throttled) Allow(ctx context.Context, key string) (bool, error) {
	limited, _, err := t.limiter.RateLimitCtx(ctx, key, 1)
	return err == nil && !limited, err
}

func (t *throttled) Close() error { return t.client.Close() }

// day is the TTL of the keys in the rows that decide nothing and of the buckets of
// lockKey.
const day = 24 * time.Hour
