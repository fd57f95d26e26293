package engine

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// Lease takes units of a key under limit in advance, for a client that spends them
// without further requests; see [headgate.LeaseStore]. It sets op.Bound. The failure
// modes do not apply: while the store is unavailable, Lease returns its error. The error
// is [headgate.ErrUnsupported] if the store or the algorithm has no leases.
func (s *ActiveConfig) Lease(ctx context.Context, now headgate.Instant, limit *InlineLimit, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	r, err := s.ruleOfValue(limit)
	if err != nil {
		return headgate.LeaseResult{}, err
	}
	store, ok := s.store.(headgate.LeaseStore)
	if !ok {
		return headgate.LeaseResult{}, fmt.Errorf("engine: lease: %w: the store has no leases", headgate.ErrUnsupported)
	}
	op.Bound = r.bound
	return store.ApplyLease(ctx, now, op)
}
