package stores

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate/bench"
)

// lockKey is a token bucket in memcached without compare-and-swap, as several limiters
// implement it: they add a lock key, get and set the bucket, and delete the lock key. A
// caller that finds the lock key waits and tries again.
type lockKey struct {
	client *memcache.Client
	limit  bench.Limit
	unit   time.Duration
}

const (
	lockTTL   = 5 // seconds after which the lock of a crashed caller expires
	lockPause = 500 * time.Microsecond
)

func newLockKey(addr string, limit bench.Limit) (Limiter, error) {
	client := memcache.New(addr)
	client.MaxIdleConns = 64
	client.Timeout = time.Second
	return &lockKey{client, limit, limit.Per / time.Duration(limit.Count)}, nil
}

func (l *lockKey) Allow(ctx context.Context, key string) (bool, error) {
	if err := l.lock(ctx, key); err != nil {
		return false, err
	}
	allowed, err := l.take(key)
	return allowed, errors.Join(err, l.client.Delete("lock:"+key))
}

func (l *lockKey) lock(ctx context.Context, key string) error {
	for {
		err := l.client.Add(&memcache.Item{Key: "lock:" + key, Value: []byte("1"), Expiration: lockTTL})
		if !errors.Is(err, memcache.ErrNotStored) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Duration(rand.Int64N(int64(lockPause))))
	}
}

// take adds the tokens that were refilled since the last call, then takes one token.
func (l *lockKey) take(key string) (bool, error) {
	now := time.Now().UnixNano()
	tokens, last := int64(l.limit.Burst), now
	item, err := l.client.Get("bucket:" + key)
	switch {
	case errors.Is(err, memcache.ErrCacheMiss):
	case err != nil:
		return false, err
	default:
		if _, err := fmt.Sscanf(string(item.Value), "%d %d", &tokens, &last); err != nil {
			return false, err
		}
		refilled := (now - last) / int64(l.unit)
		tokens, last = min(int64(l.limit.Burst), tokens+refilled), last+refilled*int64(l.unit)
	}
	if tokens < 1 {
		return false, nil
	}
	return true, l.client.Set(&memcache.Item{
		Key: "bucket:" + key, Value: fmt.Appendf(nil, "%d %d", tokens-1, last), Expiration: int32(day / time.Second),
	})
}

func (l *lockKey) Close() error { return l.client.Close() }
