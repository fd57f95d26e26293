package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

// CheckHolds returns an error that matches invalid if the store or a charge does not
// support [Batch.Hold]. setting is the name of the setting that needs holds.
func CheckHolds(store headgate.Store, charges []Charge, setting string, invalid error) error {
	if _, ok := store.(headgate.HoldStore); !ok {
		return fmt.Errorf("%w: %s needs a store that supports holds, and this store does not", invalid, setting)
	}
	for i := range charges {
		if charges[i].Queues {
			return fmt.Errorf("%w: %s and a policy with a queue (charge %d) cannot be combined: later requests are promised"+
				" their delays; use another algorithm, or two middlewares", invalid, setting, i+1)
		}
	}
	return nil
}

// Hold is like Take, and opens a hold, so that [Batch.Commit] can change the costs until
// ttl has passed. The store must be a [headgate.HoldStore]. If a key has too many open
// holds, or there is no memory for another hold, Hold makes the operations without a
// hold, so their costs are final. This takes two store operations instead of one. If an
// operation takes slots, for which a hold is required, Hold returns the error instead.
func (b *Batch) Hold(ctx context.Context, store headgate.Store, now headgate.Instant, ttl time.Duration) error {
	id := headgate.NewHoldID()
	for i := range b.Ops {
		b.held = append(b.held, headgate.HoldOp{Op: b.Ops[i], ID: id, Private: true})
	}
	b.results = append(b.results[:0], make([]headgate.HoldResult, len(b.held))...)
	_, err := root.ApplyHolds(ctx, store, now, headgate.OpenHold, ttl, b.held, b.results)
	if !b.slots && (errors.Is(err, headgate.ErrTooManyHolds) || errors.Is(err, headgate.ErrStoreFull)) {
		b.dropHold()
		return b.Take(ctx, store, now)
	}
	if err != nil {
		b.dropHold()
		return err
	}
	allowed := true
	for i := range b.results {
		b.Decisions[i] = b.results[i].Decision
		allowed = allowed && b.Decisions[i].Allowed
	}
	if !allowed {
		b.dropHold()
	}
	return nil
}

// CommitFull ends the hold of some ops with their full costs, so that these costs are
// final. ops has their indexes in Ops, and the decisions do not change. The hold of all
// other ops expires. CommitFull makes one store operation.
func (b *Batch) CommitFull(ctx context.Context, store headgate.Store, now headgate.Instant, ops []int) error {
	held := make([]headgate.HoldOp, len(ops))
	for i, op := range ops {
		held[i] = b.held[op]
	}
	b.dropHold()
	_, err := root.ApplyHolds(ctx, store, now, headgate.CommitHold, 0, held, make([]headgate.HoldResult, len(held)))
	return err
}

// dropHold removes the hold from the batch and from its Keeper. The store is not called.
func (b *Batch) dropHold() {
	if b.keeper != nil {
		b.keeper.remove(b.kept)
		b.keeper, b.kept = nil, nil
	}
	clear(b.held)
	b.held = b.held[:0]
}

// IsHeld reports whether the batch has an open hold.
func (b *Batch) IsHeld() bool { return len(b.held) > 0 }

// Commit ends the hold with the actual cost of each op, in the order of Ops, and sets
// the decisions to those of a peek. It makes one store operation. Its error matches
// [headgate.ErrUnknownHold] if the hold has expired, but not if a failure mode had
// allowed an op without a charge, which leaves nothing to correct.
func (b *Batch) Commit(ctx context.Context, store headgate.Store, now headgate.Instant, actual []int64) error {
	if b.keeper != nil {
		b.keeper.remove(b.kept)
	}
	for i := range b.held {
		b.held[i].Cost = actual[i]
	}
	_, err := root.ApplyHolds(ctx, store, now, headgate.CommitHold, 0, b.held, b.results)
	for i := range b.results {
		uncharged := b.Decisions[i].Degraded != headgate.ReasonNone && errors.Is(b.results[i].Err, headgate.ErrUnknownHold)
		if !uncharged { // otherwise there is no new decision
			b.Decisions[i] = b.results[i].Decision
		}
		if err == nil && !uncharged {
			err = b.results[i].Err
		}
	}
	b.dropHold()
	return err
}
