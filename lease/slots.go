package lease

import (
	"cmp"
	"context"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// maxSlotTTL is the maximum TTL of a hold that is opened in memory. After a crash, the
// slots of a process stay taken for the longest TTL of its holds and one TTL of the
// lease.
const maxSlotTTL = time.Minute

// slotBound is a leased limit of concurrent units, which are called slots. It embeds the
// Bound of the inner store, which executes everything but holds, peeks and resets.
//
// The process takes slots from the inner store with holds of its own, called chunks. A
// chunk takes slots of the limit, and as many of a second limit, the pool. The pool has
// the share of the slots that all processes together may have in chunks.
type slotBound struct {
	headgate.Bound
	store   *Store
	salt    uint64
	scope   string
	limit   int64             // maximum number of slots, of all processes
	max     int64             // maximum number of slots in chunks, of all processes
	maxOpen int               // maximum number of holds in memory of one key
	ttl     int64             // ns
	chunk   [2]headgate.Bound // the limit and the pool, with the failure mode closed
	holds   headgate.HoldSettings
	// offset is used only to report deadlines. It is nil before the first reply.
	offset atomic.Pointer[clockOffset]
}

// clockOffset is the store's clock less the clock of a process.
type clockOffset struct {
	micros int64
	at     int64 // when it was measured, in ns of the clock of the process
}

// bindSlots returns a slotBound for a leased rule. inner is the Bound of the inner store.
func (s *Store) bindSlots(leased headgate.Rule, inner headgate.Bound) (headgate.Bound, error) {
	limit := inner.Limit()
	b := &slotBound{
		Bound: inner, store: s, salt: rand.Uint64(), scope: leased.Scope, limit: limit, max: leased.Lease.Max(limit),
		maxOpen: leased.Holds.MaxOpenOrDefault(), ttl: int64(leased.Lease.TTLOrDefault()), holds: leased.Holds,
	}
	rule := leased
	rule.Lease, rule.OnStoreError = headgate.LeaseSettings{}, headgate.FailClosed
	for i := range b.chunk {
		var err error
		if b.chunk[i], err = s.inner.Bind(rule); err != nil {
			return nil, err
		}
		rule.Scope, rule.Limit.Rate = "pool:"+rule.Scope, b.max
	}
	return b, nil
}

// Node returns the node of the inner store; see [headgate.NodeOf].
func (b *slotBound) Node(key string) string { return headgate.NodeOf(b.Bound, key) }

// Apply executes the operation verb on key; see [headgate.Bound]. A peek that free slots
// of this process cover does no I/O. A reset first ends the holds of this process.
func (b *slotBound) Apply(
	ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	if c := b.find(key); c != nil {
		switch {
		case verb == headgate.Reset:
			c.end(ctx, true)
		case verb == headgate.Peek && now == headgate.StoreClock && ctx.Err() == nil:
			if d, ok := c.peek(cost); ok {
				return d, nil
			}
		}
	}
	return b.Bound.Apply(ctx, now, key, verb, cost)
}

// ApplyHold executes an operation on a hold; see [headgate.HoldBound].
func (b *slotBound) ApplyHold(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, op headgate.HoldOp,
) (headgate.HoldResult, headgate.Instant, error) {
	result, done, err := b.apply(ctx, now, verb, ttl, &op)
	if done {
		return result, b.instant(), cmp.Or(err, result.Err)
	}
	op.Bound = b.Bound
	if inner, ok := b.Bound.(headgate.HoldBound); ok {
		result, at, err := inner.ApplyHold(ctx, now, verb, ttl, op)
		b.setClockOffset(now, at, err)
		return result, at, err
	}
	results := make([]headgate.HoldResult, 1)
	at, err := b.store.inner.ApplyHolds(ctx, now, verb, ttl, []headgate.HoldOp{op}, results)
	b.setClockOffset(now, at, err)
	if err == nil {
		err = results[0].Err
	}
	return results[0], at, err
}

// apply executes an operation in memory. done is false if the inner store must execute
// it. err is an error of the inner store, which could not extend a chunk.
func (b *slotBound) apply(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, op *headgate.HoldOp,
) (result headgate.HoldResult, done bool, err error) {
	c := b.find(op.Key)
	switch {
	case verb == headgate.OpenHold:
		n := b.holds.ChargedUnits(op.Cost, b.limit)
		if ctx.Err() != nil || now != headgate.StoreClock || !op.Private || ttl > maxSlotTTL || n < 1 || n > b.max {
			return result, false, nil
		}
		if c == nil {
			b.countRequest(op.Key, n, ttl)
		} else if c.bound.limit == b.limit { // otherwise the limit has changed
			result, done = c.open(op.ID, n, int64(ttl))
		}
	case c == nil:
	case verb == headgate.CommitHold:
		result, done = c.commit(op.ID)
	case verb == headgate.ExtendHold:
		return c.extendHold(ctx, op.ID, int64(ttl))
	}
	return result, done, nil
}

// find returns the slots that this process has of key, or nil.
func (b *slotBound) find(key string) *slotLease { return b.store.slots.find(b.scope, key) }

// countRequest counts a hold on a key that is not leased. If there were enough of them,
// it leases the key, in the background.
func (b *slotBound) countRequest(key string, n int64, ttl time.Duration) {
	s := b.store
	if s.keys.size.Load() >= s.keys.max {
		return
	}
	now := s.clock()
	if s.requests.count(maphash.String(s.keys.seed, key)^b.salt, now/b.ttl) <= hotAfter || s.isClosed() {
		return
	}
	c := newSlotLease(b, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.addSlots(c) {
		return
	}
	c.timer = time.AfterFunc(time.Duration(b.ttl/2), c.tick)
	c.recordMiss(now, n, int64(ttl))
}

// setClockOffset updates the offset of the store's clock from the instant of a reply.
func (b *slotBound) setClockOffset(now, at headgate.Instant, err error) {
	if now == headgate.StoreClock && err == nil && at > 0 {
		clock := b.store.clock()
		latest := &clockOffset{int64(at) - clock/1000, clock}
		for old := b.offset.Load(); old == nil || old.at < clock; old = b.offset.Load() {
			if b.offset.CompareAndSwap(old, latest) {
				return
			}
		}
	}
}

// lateBy returns by how much the store's clock may reach the given deadline, as instantOf
// reports it, later than the clock of this process, in ns: that clock may be fast by 1 %
// since the offset was set. The store's clock has a resolution of 1 µs.
func (b *slotBound) lateBy(deadline int64) int64 {
	measured := int64(0)
	if offset := b.offset.Load(); offset != nil {
		measured = offset.at
	}
	return (deadline-measured)/100 + int64(2*time.Microsecond)
}

// instant returns the present time of the store's clock, or that of this process before
// the first reply.
func (b *slotBound) instant() headgate.Instant { return b.instantOf(b.store.clock()) }

// instantOf returns the time at of this process as an instant of the store's clock.
func (b *slotBound) instantOf(at int64) headgate.Instant {
	offset := b.offset.Load()
	if offset == nil {
		return headgate.InstantOf(time.Now().Add(time.Duration(at - b.store.clock())))
	}
	return headgate.Instant(at/1000 + offset.micros)
}

// isSlots reports whether the limit is a leased limit of concurrent units.
func isSlots(b headgate.Bound) bool {
	_, ok := b.(*slotBound)
	return ok
}

// applySlots is ApplyHolds for ops of which some are under leased limits of concurrent
// units. A hold is opened in memory only if it has one op. Every op of a hold that was
// opened in memory is executed there.
func (s *Store) applySlots(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration,
	ops []headgate.HoldOp, results []headgate.HoldResult,
) (at headgate.Instant, err error) {
	if verb == headgate.OpenHold && len(ops) > 1 {
		return s.applyInner(ctx, now, verb, ttl, ops, results)
	}
	if verb == headgate.ExtendHold {
		s.beginExtensions(ops, int64(ttl))
	}
	var rest []int // indexes of the ops that the inner store executes
	for i := range ops {
		b, ok := ops[i].Bound.(*slotBound)
		if !ok || b.store != s {
			rest = append(rest, i)
			continue
		}
		result, done, err := b.apply(ctx, now, verb, ttl, &ops[i])
		switch results[i] = result; {
		case err != nil:
			return 0, err
		case done:
			at = b.instant()
		default:
			rest = append(rest, i)
		}
	}
	if len(rest) == 0 {
		return at, nil
	}
	return s.applyRest(ctx, now, verb, ttl, ops, results, rest)
}

// applyRest lets the inner store execute the ops with the given indexes.
func (s *Store) applyRest(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration,
	ops []headgate.HoldOp, results []headgate.HoldResult, rest []int,
) (headgate.Instant, error) {
	inner, replies := make([]headgate.HoldOp, len(rest)), make([]headgate.HoldResult, len(rest))
	for i, j := range rest {
		inner[i] = ops[j]
	}
	at, err := s.applyInner(ctx, now, verb, ttl, inner, replies)
	for i, j := range rest {
		results[j] = replies[i]
	}
	return at, err
}

// applyInner lets the inner store execute all ops.
func (s *Store) applyInner(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration,
	ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	inner := slices.Clone(ops)
	for i := range inner {
		var err error
		if inner[i].Bound, err = s.innerBound(i, inner[i].Bound); err != nil {
			return 0, err
		}
	}
	at, err := s.inner.ApplyHolds(ctx, now, verb, ttl, inner, results)
	for i := range ops {
		if b, ok := ops[i].Bound.(*slotBound); ok {
			b.setClockOffset(now, at, err)
		}
	}
	return at, err
}

// beginExtensions extends the chunks that must last longer before these holds can be
// extended, those of all keys at the same time. The caller then waits for each of them.
func (s *Store) beginExtensions(ops []headgate.HoldOp, ttl int64) {
	for i := range ops {
		if b, ok := ops[i].Bound.(*slotBound); ok && b.store == s {
			if c := b.find(ops[i].Key); c != nil {
				c.beginExtension(ops[i].ID, ttl)
			}
		}
	}
}
