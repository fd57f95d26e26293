// Package admission charges a request under one or more limits, delays it in a queue or
// opens a hold for it, and corrects the charge when the cost is known. Every package that
// limits requests uses it, so that all of them follow the same rule. It refunds nothing:
// a charge whose cost is not yet known is a hold, and a request that leaves its queue
// cancels its reservation, if the queue is its only limit. All other charges stay.
package admission

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
	"github.com/headgate/headgate/internal/turn"
)

// Batch is the list of operations for one request. Either all of them are made, or
// none. The zero value is empty and ready for use; [Batch.Reset] keeps the memory for
// the next request.
type Batch struct {
	Ops       []headgate.Op
	Decisions []headgate.Decision // decisions in the order of Ops

	anyQueue bool                      // true if the algorithm of an op has a queue
	reserved bool                      // true if the only op is a reservation that is not yet due
	token    headgate.ReservationToken // token of the reservation

	held    []headgate.HoldOp     // ops of the open hold, in the order of Ops; empty if there is none
	results []headgate.HoldResult // memory for the results of held
	slots   bool                  // true if an op takes slots, so that Hold must be used
	keeper  *Keeper               // extends the hold; nil if it is not extended
	kept    *keptHold
}

// Add adds an operation. queues is whether the algorithm has a queue.
func (b *Batch) Add(bound headgate.Bound, queues bool, key string, cost int64) {
	b.Ops = append(b.Ops, headgate.Op{Bound: bound, Key: key, Cost: cost})
	b.Decisions = append(b.Decisions, headgate.Decision{})
	b.anyQueue = b.anyQueue || queues
}

// Remove removes the operation at index i. It must not be called while a request waits in
// a queue.
func (b *Batch) Remove(i int) {
	b.Ops = slices.Delete(b.Ops, i, i+1)
	b.Decisions = slices.Delete(b.Decisions, i, i+1)
}

// Reset empties the batch and removes all references to keys. Memory that the next
// request overwrites is not zeroed: zeroing would take 4 % of the time of a request
// with one limit.
func (b *Batch) Reset() {
	clear(b.Ops)
	clear(b.held)
	b.Ops, b.held = b.Ops[:0], b.held[:0]
	b.Decisions = b.Decisions[:0]
	b.anyQueue, b.reserved, b.slots = false, false, false
	b.keeper, b.kept = nil, nil
}

// Take applies all operations at the time now, and sets the
// decisions. A single operation on a queue is made as a reservation, so that CancelPlace
// can cancel it; the decision is the same as for a plain take. Take normally makes one
// store operation and allocates nothing. If the local fallback makes the reservation,
// Take may make up to five store operations. With several operations, a queue and a
// deadline, it makes two: the first is a peek, and if the delay ends after the deadline,
// nothing is spent. [Batch.Await] then returns an error immediately.
func (b *Batch) Take(ctx context.Context, store headgate.Store, now headgate.Instant) (err error) {
	if len(b.Ops) > 1 {
		if late, err := b.isLate(ctx, store, now); late || err != nil {
			return err
		}
		return root.ApplyAll(ctx, store, now, b.Ops, false, b.Decisions)
	}
	op := &b.Ops[0]
	if b.anyQueue && op.Cost > 0 && op.Cost <= op.Bound.Limit() && op.Bound.CanReserve() {
		return b.reserveInQueue(ctx, now, op)
	}
	b.Decisions[0], err = op.Bound.Apply(ctx, now, op.Key, headgate.Take, op.Cost)
	return err
}

// isLate reports whether the operations would be allowed with a delay that ends after the
// deadline of ctx. What is taken from a queue and other limits together cannot be
// cancelled. If isLate returns true, it has set the decisions to those of a peek.
func (b *Batch) isLate(ctx context.Context, store headgate.Store, now headgate.Instant) (bool, error) {
	deadline, ok := ctx.Deadline()
	if !ok || !b.anyQueue {
		return false, nil
	}
	if err := root.ApplyAll(ctx, store, now, b.Ops, true, b.Decisions); err != nil {
		return false, err
	}
	d := root.Combine(b.Decisions)
	return d.Allowed && d.Delay > 0 && time.Now().Add(d.Delay).After(deadline), nil
}

// reserveInQueue reserves units in a queue. A reservation does not check the length of
// the queue, so its maximum delay is the delay in the full queue, in whole microseconds.
// If RetryAfter is at most one microsecond, rounding may have caused the denial, and a
// plain take decides.
func (b *Batch) reserveInQueue(ctx context.Context, now headgate.Instant, op *headgate.Op) error {
	d, err := b.reserve(ctx, now, op, op.Bound.Spacing(op.Bound.Limit()-op.Cost))
	if err == nil && d.Degraded != headgate.ReasonNone && d.Delay > 0 {
		d, err = b.reserveAgain(ctx, now, op)
	}
	if err != nil || d.Allowed || d.Never || d.RetryAfter > time.Microsecond && d.Degraded == headgate.ReasonNone {
		return err
	}
	b.Decisions[0], err = op.Bound.Apply(ctx, now, op.Key, headgate.Take, op.Cost)
	return err
}

// reserveAgain replaces a reservation that was made by the local fallback. The fallback
// has a share of the limit, so its queue is shorter and the maximum delay of the first
// reservation was too long. A peek returns the delay that a take would have.
func (b *Batch) reserveAgain(ctx context.Context, now headgate.Instant, op *headgate.Op) (headgate.Decision, error) {
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

// reserve makes a reservation whose delay is at most longest.
func (b *Batch) reserve(
	ctx context.Context, now headgate.Instant, op *headgate.Op, longest time.Duration,
) (d headgate.Decision, err error) {
	d, b.token, err = op.Bound.Reserve(ctx, now, op.Key, op.Cost, longest)
	b.reserved = err == nil && d.Delay > 0
	b.Decisions[0] = d
	return d, err
}

// Await blocks an allowed request for delay. If it returns an error, which is that of
// [turn.Await], the request has left and the caller must call CancelPlace.
func (b *Batch) Await(ctx context.Context, delay time.Duration) error {
	if delay > 0 {
		if err := turn.Await(ctx, time.Now().Add(delay)); err != nil {
			return err
		}
	}
	b.reserved = false
	return nil
}

// CancelPlace cancels the reservation of a request that has left its queue, which has no
// effect if there is a later one. All other charges stay. It returns the decision after
// the cancellation, and whether there was a reservation. It makes at most one store
// operation.
func (b *Batch) CancelPlace(ctx context.Context, now headgate.Instant) (cancelled bool, d headgate.Decision, err error) {
	if !b.reserved {
		return false, d, nil
	}
	b.reserved = false
	op := &b.Ops[0]
	d, err = op.Bound.Cancel(ctx, now, op.Key, op.Cost, b.token)
	return true, d, err
}
