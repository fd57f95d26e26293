package lease

import (
	"context"

	"github.com/headgate/headgate"
)

// ApplyLease ends a lease, begins a lease, or both, in the inner store; see
// [headgate.LeaseStore]. It is for clients of this process that spend units without
// asking it. The leases of this store count the same units, so all of them keep the
// limit.
func (s *Store) ApplyLease(ctx context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	var err error
	if op.Bound, err = s.unwrapped(0, op.Bound); err != nil {
		return headgate.LeaseResult{}, err
	}
	return s.inner.ApplyLease(ctx, now, op)
}
