package fallback

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// ApplyLease ends a lease, begins a lease, or both, in the inner store; see
// [headgate.LeaseStore]. The failure modes do not apply: while the inner store is
// unavailable, ApplyLease returns the error. The store of package lease then calls Apply
// instead, for which they apply. ApplyLease returns [headgate.ErrUnsupported] if the
// inner store does not support leases.
func (s *Store) ApplyLease(ctx context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	if s.closed.Load() {
		return headgate.LeaseResult{}, headgate.ErrClosed
	}
	b, err := s.boundOf(0, op.Bound)
	if err != nil {
		return headgate.LeaseResult{}, err
	}
	inner, ok := s.inner.(headgate.LeaseStore)
	if !ok {
		return headgate.LeaseResult{}, fmt.Errorf("fallback: %w: the inner store does not support leases", headgate.ErrUnsupported)
	}
	op.Bound = b.inner
	c, v := s.enter(ctx, storeCall{bound: b.inner, key: op.Key})
	if v.err != nil {
		return headgate.LeaseResult{}, v.err
	}
	defer c.end()
	result, err := inner.ApplyLease(c.ctx, now, op)
	if v = c.judge(err); v.err != nil {
		return headgate.LeaseResult{}, v.err
	}
	return result, nil
}
