package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// This file has the operations that the inner store executes.

// ApplyLease ends a lease, begins a lease, or both, in the inner store; see
// [headgate.LeaseStore]. It is for clients of this process that spend units without a
// request for each. The leases of this store count the same units, so all of them keep
// the limit.
func (s *Store) ApplyLease(
	ctx context.Context, now headgate.Instant, op headgate.LeaseOp,
) (_ headgate.LeaseResult, err error) {
	if op.Bound, err = s.innerBound(0, op.Bound); err != nil {
		return headgate.LeaseResult{}, err
	}
	return s.inner.ApplyLease(ctx, now, op)
}

// ApplyHolds executes verb on every op; see [headgate.HoldStore]. Under a leased limit of
// concurrent units, it opens a hold with one op in memory, if slots of this process are
// free. The inner store executes all other ops.
func (s *Store) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration,
	ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	switch {
	case !slices.ContainsFunc(ops, func(op headgate.HoldOp) bool { return isLeased(op.Bound) }):
		return s.inner.ApplyHolds(ctx, now, verb, ttl, ops, results)
	case len(results) == len(ops) && slices.ContainsFunc(ops, func(op headgate.HoldOp) bool { return isSlots(op.Bound) }):
		return s.applySlots(ctx, now, verb, ttl, ops, results)
	default:
		return s.applyInner(ctx, now, verb, ttl, ops, results)
	}
}

func isLeased(b headgate.Bound) bool {
	_, ok := b.(*leasedBound)
	return ok || isSlots(b)
}

// innerBound returns the Bound of the inner store for op i of a call.
func (s *Store) innerBound(i int, b headgate.Bound) (headgate.Bound, error) {
	var inner headgate.Bound
	var store *Store
	switch leased := b.(type) {
	case *leasedBound:
		inner, store = leased.Bound, leased.store
	case *slotBound:
		inner, store = leased.Bound, leased.store
	default:
		return b, nil
	}
	if store == s {
		return inner, nil
	}
	const format = "lease: %w: op %d is bound by another store; Bind it on this one"
	return nil, fmt.Errorf(format, headgate.ErrInvalidPolicy, i+1)
}
