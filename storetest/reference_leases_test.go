package storetest

import (
	"context"

	"github.com/headgate/headgate"
)

// naiveLeases adds leases to a store in the way of a quota that is prefetched: a lease
// is a take of as many units as remain, and its end refunds what was not spent. Under a
// bucket, the units refill while the process may still spend them.
type naiveLeases struct {
	*naiveHolds
	ends map[headgate.HoldID]headgate.Instant
}

func (s *naiveLeases) ApplyLease(ctx context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	var out headgate.LeaseResult
	if !op.Bound.(*refBound).rule.Algorithm.CanLease() {
		return out, headgate.ErrUnsupported
	}
	rest := int64(0)
	if units := s.naiveHolds.holds[op.Previous]; units > 0 && now < s.ends[op.Previous] {
		rest, out.PreviousOpen = units-op.Spent, true
		if _, err := op.Bound.Apply(ctx, now, op.Key, headgate.Refund, rest); err != nil {
			return out, err
		}
		delete(s.naiveHolds.holds, op.Previous)
	}
	if op.ID != (headgate.HoldID{}) {
		d, _ := op.Bound.Apply(ctx, now, op.Key, headgate.Peek, 0)
		out.Units, out.TTL = min(rest+op.Want, d.Remaining), op.TTL
		if _, err := op.Bound.Apply(ctx, now, op.Key, headgate.Take, out.Units); err != nil {
			return out, err
		}
		s.naiveHolds.holds[op.ID], s.ends[op.ID] = out.Units, now+headgate.Instant(op.TTL.Microseconds())
	}
	var err error
	out.Decision, err = op.Bound.Apply(ctx, now, op.Key, headgate.Peek, 1)
	return out, err
}
