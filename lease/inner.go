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
// [headgate.LeaseStore]. It is for clients of this process that spend units without
// asking it. The leases of this store count the same units, so all of them keep the
// limit.
func (s *Store) ApplyLease(
	ctx context.Context, now headgate.Instant, op headgate.LeaseOp,
) (_ headgate.LeaseResult, err error) {
	if op.Bound, err = s.innerBound(0, op.Bound); err != nil {
		return headgate.LeaseResult{}, err
	}
	return s.inner.ApplyLease(ctx, now, op)
}

// ApplyHolds executes verb on every op; see [headgate.HoldStore]. Holds are not leased:
// the inner store executes them.
func (s *Store) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration,
	ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if !slices.ContainsFunc(ops, func(op headgate.HoldOp) bool { return isLeased(op.Bound) }) {
		return s.inner.ApplyHolds(ctx, now, verb, ttl, ops, results)
	}
	inner := make([]headgate.HoldOp, len(ops))
	for i, op := range ops {
		var err error
		if op.Bound, err = s.innerBound(i, op.Bound); err != nil {
			return 0, err
		}
		inner[i] = op
	}
	return s.inner.ApplyHolds(ctx, now, verb, ttl, inner, results)
}

func isLeased(b headgate.Bound) bool {
	_, ok := b.(*leasedBound)
	return ok
}

// innerBound returns the Bound of the inner store for op i of a call.
func (s *Store) innerBound(i int, b headgate.Bound) (headgate.Bound, error) {
	leased, ok := b.(*leasedBound)
	switch {
	case !ok:
		return b, nil
	case leased.store == s:
		return leased.Bound, nil
	}
	const format = "lease: %w: op %d is bound by another store; Bind it on this one"
	return nil, fmt.Errorf(format, headgate.ErrInvalidPolicy, i+1)
}
