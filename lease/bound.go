package lease

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// leasedBound is a rule that is leased. It embeds the Bound of the inner store, which
// executes all operations except takes, peeks and resets at the time of the store's
// clock.
type leasedBound struct {
	headgate.Bound
	store           *Store
	salt            uint64 // distinguishes the hashes of the same key under two rules
	maxUnits        int64  // maximum units of all leases of a key
	capacity        int64
	ttl             int64 // ns
	minCallInterval int64 // minimum time between two calls for a key at the limit, in ns
	deniedBy        []string
	unsupported     atomic.Bool // true if the inner store does not support leases
}

func (s *Store) newBound(rule headgate.Rule, inner headgate.Bound) *leasedBound {
	capacity := inner.Limit()
	maxUnits, ttl := rule.Lease.Max(capacity), rule.Lease.TTLOrDefault()
	return &leasedBound{
		Bound: inner, store: s, salt: rand.Uint64(), maxUnits: maxUnits, capacity: capacity,
		ttl: int64(ttl), minCallInterval: minCallInterval(rule, maxUnits, ttl), deniedBy: []string{rule.Name},
	}
}

// callsPerInterval is the maximum number of calls for a key within its minimum interval,
// below the limit.
const callsPerInterval = 8

// minCallInterval returns the minimum time between two calls for one key at the limit, in
// ns. It is the time in which half of maxUnits become available, and at most a sixteenth
// of the TTL. In a sliding log, units count from the call that reports them. So that call
// is made after at most 1/200 of the period.
func minCallInterval(rule headgate.Rule, maxUnits int64, ttl time.Duration) int64 {
	l, longest := rule.Limit, ttl/16
	if rule.Algorithm == headgate.SlidingLog {
		longest = min(longest, l.Period/200)
	}
	if l.Period <= 0 || l.Rate <= 0 {
		return int64(longest)
	}
	half := time.Duration(float64(l.Period) / float64(l.Rate) * float64(maxUnits) / 2)
	return int64(min(max(half, time.Millisecond/2), longest))
}

// renewalMax returns the maximum number of units on lease after a renewal, for all leases
// of the key. It leaves an eighth of the maximum for processes that have no lease.
func (b *leasedBound) renewalMax() int64 { return b.maxUnits - b.maxUnits/8 }

// Node returns the node of the inner store; see [headgate.NodeOf].
func (b *leasedBound) Node(key string) string { return headgate.NodeOf(b.Bound, key) }

// Apply executes the operation verb on key; see [headgate.Bound]. A take or a peek that
// the lease covers does no I/O.
func (b *leasedBound) Apply(
	ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	if now != headgate.StoreClock || verb == headgate.Refund {
		return b.Bound.Apply(ctx, now, key, verb, cost)
	}
	if err := ctx.Err(); err != nil {
		return headgate.Decision{}, err
	}
	switch k := b.find(key, verb); {
	case k == nil:
	case verb == headgate.Reset:
		k.release(ctx)
	default:
		if d, ok := k.decide(b.store.clock(), verb, cost); ok {
			return d, nil
		}
		if verb == headgate.Take {
			return k.takeFromStore(ctx, cost)
		}
	}
	return b.Bound.Apply(ctx, now, key, verb, cost)
}

// find returns the leased key, or nil if the key is not leased. It counts the takes of a
// key that is not leased.
func (b *leasedBound) find(key string, verb headgate.Verb) *leasedKey {
	hash := maphash.String(b.store.keys.seed, key) ^ b.salt
	k := b.store.keys.find(b, key, hash)
	if k == nil && verb == headgate.Take {
		b.countRequest(key, hash)
	}
	return k
}

// countRequest counts a request for a key that is not leased. If there were enough of
// them, it leases the key, in the background.
func (b *leasedBound) countRequest(key string, hash uint64) {
	s := b.store
	if b.unsupported.Load() || s.keys.size.Load() >= s.keys.max {
		return
	}
	now := s.clock()
	count := s.requests.count(hash, now/b.ttl)
	if count <= hotAfter {
		return
	}
	k := newLeasedKey(b, key, hash, now, float64(2*count))
	if s.keys.add(k) {
		k.joinCall() // a request that has found the key may have started the call
	}
}
