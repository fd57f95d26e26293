// Package admission takes from one or more limits what a request needs, holds the
// request in a queue, and releases what the request does not use. Every caller that
// limits requests uses it, so that all of them follow one rule: see [turn.Taken.Undo].
package admission

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
	"github.com/headgate/headgate/internal/turn"
)

// Batch is the operations that one request is admitted by: all of them, or nothing is
// taken. The zero value is empty and ready; [Batch.Reset] keeps its memory for the next
// request. After Take, Release may be called concurrently; nothing else may.
type Batch struct {
	Ops       []headgate.Op
	Decisions []headgate.Decision // one for each op

	isQueue  []bool // of each op: its algorithm has a queue
	anyQueue bool   // one of them has
	hasTime  bool   // now and taken are set
	now      headgate.Instant
	taken    time.Time
	reserved bool                      // the only op is a reservation whose turn has not come
	token    headgate.ReservationToken // of the reservation
}

// Add adds an operation.
func (b *Batch) Add(bound headgate.Bound, queues bool, key string, cost int64) {
	b.Ops = append(b.Ops, headgate.Op{Bound: bound, Key: key, Cost: cost})
	b.Decisions = append(b.Decisions, headgate.Decision{})
	b.isQueue = append(b.isQueue, queues)
	b.anyQueue = b.anyQueue || queues
}

// Reset empties the batch. It keeps no key. It does not zero what the next request
// overwrites: that takes 4 % of the time of a request with one limit.
func (b *Batch) Reset() {
	clear(b.Ops)
	b.Ops = b.Ops[:0]
	b.Decisions = b.Decisions[:0]
	b.isQueue = b.isQueue[:0]
	b.anyQueue, b.hasTime, b.reserved = false, false, false
}

// MarkTaken notes that the operations are made at now. Take does it for a batch with a
// queue; call it before Take for any other batch that may be released. Without it,
// [Batch.Release] takes the units for new and refunds them even if the limit has regained
// them.
func (b *Batch) MarkTaken(now headgate.Instant) { b.hasTime, b.now, b.taken = true, now, time.Now() }

// Take applies all operations to the store at now, and fills in the decisions. If the
// only operation has a queue, Take makes a reservation, so that the place can be
// cancelled; its decision is that of a take. It is one operation of the store, and
// allocates nothing; a reservation may need up to five, if the local fallback makes it.
func (b *Batch) Take(ctx context.Context, store headgate.Store, now headgate.Instant) (err error) {
	if b.anyQueue {
		b.MarkTaken(now)
	}
	if len(b.Ops) > 1 {
		return store.ApplyAll(ctx, now, b.Ops, false, b.Decisions)
	}
	op := &b.Ops[0]
	if b.anyQueue && op.Cost > 0 && op.Cost <= op.Bound.Limit() && op.Bound.CanReserve() {
		return b.book(ctx, now, op)
	}
	b.Decisions[0], err = op.Bound.Apply(ctx, now, op.Key, headgate.Take, op.Cost)
	return err
}

// book takes a place in a queue by a reservation. Reservations do not know the queue's
// length, so the wait is bounded by the length of the full queue, in whole
// microseconds; for a wait that ends within the last microsecond a take decides.
func (b *Batch) book(ctx context.Context, now headgate.Instant, op *headgate.Op) error {
	d, err := b.reserve(ctx, now, op, op.Bound.Spacing(op.Bound.Limit()-op.Cost))
	if err == nil && d.Degraded != headgate.ReasonNone && d.Delay > 0 {
		d, err = b.rebook(ctx, now, op)
	}
	if err != nil || d.Allowed || d.Never || d.RetryAfter > time.Microsecond && d.Degraded == headgate.ReasonNone {
		return err
	}
	b.Decisions[0], err = op.Bound.Apply(ctx, now, op.Key, headgate.Take, op.Cost)
	return err
}

// rebook replaces a reservation that the local fallback made. The fallback has a share
// of the limit, so its queue is shorter. A peek returns the place that a take would
// have.
func (b *Batch) rebook(ctx context.Context, now headgate.Instant, op *headgate.Op) (headgate.Decision, error) {
	b.reserved = false
	if _, err := op.Bound.Cancel(ctx, now, op.Key, op.Cost, b.token); err != nil {
		return headgate.Decision{}, err
	}
	d, err := op.Bound.Apply(ctx, now, op.Key, headgate.Peek, op.Cost)
	if b.Decisions[0] = d; err != nil || !d.Allowed {
		return d, err
	}
	return b.reserve(ctx, now, op, d.Delay)
}

// reserve books a place that is due within longest.
func (b *Batch) reserve(
	ctx context.Context, now headgate.Instant, op *headgate.Op, longest time.Duration,
) (d headgate.Decision, err error) {
	d, b.token, err = op.Bound.Reserve(ctx, now, op.Key, op.Cost, longest)
	b.reserved = err == nil && d.Delay > 0
	b.Decisions[0] = d
	return d, err
}

// Await holds an admitted request for delay. Its error is that of [turn.Await]: the
// request has left, and the caller must release what it took.
func (b *Batch) Await(ctx context.Context, delay time.Duration) error {
	if delay > 0 {
		if err := turn.Await(ctx, time.Now().Add(delay)); err != nil {
			return err
		}
	}
	b.reserved = false
	return nil
}

// Release refunds or cancels units of what the operation at i took at an earlier time,
// unless that would grant them twice. It returns what it did, with the decision after it:
// [turn.Keep] means nothing. It is at most one operation of the store.
func (b *Batch) Release(
	ctx context.Context, now headgate.Instant, i int, units int64,
) (did turn.Action, d headgate.Decision, err error) {
	op, degraded := &b.Ops[i], b.Decisions[i].Degraded != headgate.ReasonNone
	taken := turn.Taken{
		Queues: b.isQueue[i], Reserved: b.reserved, Age: b.age(now), ResetAfter: b.Decisions[i].ResetAfter,
	}
	switch did = taken.Undo(); did {
	case turn.Cancel:
		d, err = op.Bound.Cancel(ctx, now, op.Key, op.Cost, b.token)
	case turn.Refund:
		d, err = op.Bound.Apply(turn.WithSource(ctx, degraded), now, op.Key, headgate.Refund, units)
		if !degraded && d.Degraded != headgate.ReasonNone {
			did = turn.Keep // the store granted the units and is unavailable
		}
	}
	return did, d, err
}

// age returns how long ago the operations were made.
func (b *Batch) age(now headgate.Instant) time.Duration {
	switch {
	case !b.hasTime:
		return 0
	case now != headgate.StoreClock && b.now != headgate.StoreClock:
		return micros.Duration(int64(now - b.now))
	default:
		return time.Since(b.taken)
	}
}
