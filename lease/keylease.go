package lease

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// keyLease is the lease of one key at this process. A decision from memory reads last and
// changes rest and hits, and locks nothing. All times are those of [Store.clock].
type keyLease struct {
	bound *bound
	key   string
	hash  uint64

	last atomic.Pointer[decisionState]
	rest atomic.Int64 // units of the lease that were not spent
	hits atomic.Int64 // decisions from memory
	// missed is the number of units that were requested and not spent from the lease,
	// since the last call.
	missed atomic.Int64
	// spentVersion is incremented when the number of spent units becomes fixed: by a new
	// call, or because the rest of the lease can no longer be spent. See undo.
	spentVersion atomic.Int64

	mu    sync.Mutex
	timer *time.Timer
	// id and units are the lease that the last reply granted. The zero id is no lease.
	id        headgate.HoldID
	units     int64
	pending   *call         // the call without a reply; it is repeated
	inFlight  chan struct{} // closed when the call in flight ends; nil if there is none
	releasing bool          // the key is released
	removed   bool          // the key is no longer in the table
	size      sizing
}

// decisionState is what the last reply of the store means for decisions. It is not
// modified.
type decisionState struct {
	validUntil  int64    // end of the lease; 0 if there is none
	deniedUntil int64    // requests that the lease does not cover are denied until then
	retryAt     int64    // when one unit is available, if the store denied
	nextCall    int64    // earliest time of the next call
	renewBelow  int64    // a renewal begins when no more than this number of units is left
	remaining   int64    // units that are available to all, not counting leases
	resetAt     int64    // when the key is unused
	failed      bool     // the last call had no reply
	deniedBy    []string // of a denial
}

func newKeyLease(b *bound, key string, hash uint64, demand float64) *keyLease {
	c := &keyLease{bound: b, key: strings.Clone(key), hash: hash, size: sizing{demand: demand, max: b.renewalMax(), since: b.store.clock()}}
	c.last.Store(&decisionState{})
	return c
}

// apply decides a take.
func (c *keyLease) apply(ctx context.Context, cost int64) (headgate.Decision, error) {
	now := c.bound.store.clock()
	if d, ok := c.decide(now, cost); ok {
		return d, nil
	}
	if cost <= c.bound.max {
		if done := c.join(now); done != nil {
			c.bound.store.totals.waited.Add(1)
			select {
			case <-done:
			case <-ctx.Done():
				return headgate.Decision{}, ctx.Err()
			}
			if d, ok := c.decide(c.bound.store.clock(), cost); ok {
				return d, nil
			}
		}
	}
	c.missed.Add(cost)
	sent := c.bound.store.clock()
	d, err := c.bound.Bound.Apply(ctx, headgate.StoreClock, c.key, headgate.Take, cost)
	if err == nil && !d.Allowed && cost == 1 && d.Degraded == headgate.ReasonNone {
		c.noteDenial(sent, &d)
	}
	return d, err
}

// decide decides a take from memory. ok is false if it cannot.
func (c *keyLease) decide(now, cost int64) (d headgate.Decision, ok bool) {
	r := c.last.Load()
	rest, ok := c.take(r, now, cost)
	if ok {
		return c.allowed(r, now, rest), true
	}
	if now >= r.deniedUntil || cost > c.bound.capacity {
		return d, false
	}
	c.missed.Add(cost)
	c.hits.Add(1)
	return c.denied(r, now, cost), true
}

// take spends cost units of the lease and returns the rest. It begins a renewal if few
// units are left.
func (c *keyLease) take(r *decisionState, now, cost int64) (rest int64, ok bool) {
	if now >= r.validUntil {
		return 0, false
	}
	for rest = c.rest.Load(); rest >= cost; rest = c.rest.Load() {
		if !c.rest.CompareAndSwap(rest, rest-cost) {
			continue
		}
		c.hits.Add(1)
		if rest -= cost; rest <= r.renewBelow && now >= r.nextCall && now >= r.deniedUntil {
			c.renew(now)
		}
		return rest, true
	}
	return rest, false
}

// undo returns units that take has spent and no request has used. spentVersion is the
// value of c.spentVersion before take. If a call has reported the units as spent since,
// they stay spent.
func (c *keyLease) undo(cost, spentVersion int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spentVersion.Load() == spentVersion {
		c.rest.Add(cost)
	}
}

// peek reports what decide would decide.
func (c *keyLease) peek(now, cost int64) (d headgate.Decision, ok bool) {
	r := c.last.Load()
	if rest := c.rest.Load(); now < r.validUntil && rest >= cost {
		return c.allowed(r, now, rest), true
	}
	if now < r.deniedUntil && cost <= c.bound.capacity {
		return c.denied(r, now, cost), true
	}
	return d, false
}

func (c *keyLease) allowed(r *decisionState, now, rest int64) headgate.Decision {
	return headgate.Decision{
		Allowed: true, Leased: true, Limit: c.bound.capacity,
		Remaining: min(r.remaining+rest, c.bound.capacity), ResetAfter: until(r.resetAt, now),
	}
}

func (c *keyLease) denied(r *decisionState, now, cost int64) headgate.Decision {
	retry := r.retryAt
	if cost > 1 {
		retry += int64(c.bound.Spacing(cost - 1))
	}
	d := headgate.Decision{
		Leased: true, Limit: c.bound.capacity, DeniedBy: r.deniedBy,
		RetryAfter: max(until(max(retry, r.deniedUntil), now), time.Microsecond),
	}
	if now < r.validUntil {
		d.Remaining = c.rest.Load()
	}
	d.ResetAfter = max(until(r.resetAt, now), d.RetryAfter)
	return d
}

// until returns the time from now to at, rounded up to a whole µs. It is at least 0.
func until(at, now int64) time.Duration {
	if at <= now {
		return 0
	}
	return (time.Duration(at-now) + time.Microsecond - 1).Truncate(time.Microsecond)
}

// noteDenial denies further requests in memory after the store denied one unit.
func (c *keyLease) noteDenial(sent int64, d *headgate.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := *c.last.Load()
	r.deny(c.bound, sent, c.bound.store.clock(), d)
	c.last.Store(&r)
}

// deny sets the times of a denial. Until deniedUntil, requests that the lease does not
// cover are denied in memory. A lease with units left is still renewed. The end has a
// random part, so that the processes do not call simultaneously.
func (r *decisionState) deny(b *bound, sent, now int64, d *headgate.Decision) {
	r.retryAt = saturatingAdd(now, int64(d.RetryAfter))
	r.deniedUntil = max(min(r.retryAt, now+b.ttl), sent+b.minCallInterval) + jitter(b.minCallInterval/4)
	r.resetAt = saturatingAdd(now, int64(d.ResetAfter))
	r.nextCall = sent + b.minCallInterval
	r.remaining, r.deniedBy = 0, b.deniedBy
}

func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
