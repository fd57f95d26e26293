package lease

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// bound is a rule that is leased. It embeds the Bound of the inner store, which executes
// everything but takes, peeks and resets at the time of the store's clock.
type bound struct {
	headgate.Bound
	store           *Store
	salt            uint64 // distinguishes the hashes of the same key under two rules
	max             int64  // maximum units of all leases of a key
	capacity        int64
	ttl             int64 // ns
	minCallInterval int64 // minimum time between two calls for a key at the limit, in ns
	deniedBy        []string
	unsupported     atomic.Bool // true if the inner store does not support leases
}

// renewalMax returns the maximum number of units on lease after a renewal, for all leases
// of the key. It leaves an eighth of the maximum for processes that have no lease.
func (b *bound) renewalMax() int64 { return b.max - b.max/8 }

// Node returns the node of the inner store; see [headgate.NodeOf].
func (b *bound) Node(key string) string { return headgate.NodeOf(b.Bound, key) }

// Apply executes the operation verb on key; see [headgate.Bound]. A take or a peek that
// the lease covers does no I/O.
func (b *bound) Apply(
	ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	if now != headgate.StoreClock || verb == headgate.Refund {
		return b.Bound.Apply(ctx, now, key, verb, cost)
	}
	if err := ctx.Err(); err != nil {
		return headgate.Decision{}, err
	}
	hash := b.hash(key)
	c := b.store.keys.find(b, key, hash)
	switch {
	case c == nil && verb == headgate.Take:
		b.countRequest(key, hash)
	case c == nil:
	case verb == headgate.Take:
		return c.apply(ctx, cost)
	case verb == headgate.Peek:
		if d, ok := c.peek(b.store.clock(), cost); ok {
			return d, nil
		}
	default:
		c.release(ctx)
	}
	return b.Bound.Apply(ctx, now, key, verb, cost)
}

func (b *bound) hash(key string) uint64 { return maphash.String(b.store.keys.seed, key) ^ b.salt }

// countRequest counts a request for a key that is not leased. If there were enough of
// them, it leases the key, in the background.
func (b *bound) countRequest(key string, hash uint64) {
	s := b.store
	if b.unsupported.Load() || s.keys.size.Load() >= s.keys.max {
		return
	}
	now := s.clock()
	count := s.requests.count(hash, now/b.ttl)
	if count <= hotAfter {
		return
	}
	c := newKeyLease(b, key, hash, float64(2*count))
	c.mu.Lock() // before others find it: only one of them may start its first call
	defer c.mu.Unlock()
	if !s.keys.add(c) {
		return
	}
	c.timer = time.AfterFunc(time.Duration(b.ttl/2), c.tick)
	c.start(now)
}
