package redisstore

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// leaseOp has the arguments of a lease that other operations do not have, and its result.
type leaseOp struct {
	previous                 headgate.HoldID
	spent, max, ttl, maxOpen int64 // ttl is in µs
	units, deadline          int64
	leased                   int64 // units of the key that are on lease after the operation
	status                   byte
}

// ApplyLease ends a lease, begins a lease, or both; see [headgate.LeaseStore]. It is one
// round trip, and is batched with other operations. The record of a lease is in the value
// of its key and takes 44 bytes.
func (s *Store) ApplyLease(ctx context.Context, now headgate.Instant, in headgate.LeaseOp) (headgate.LeaseResult, error) {
	if err := s.checkReady(ctx); err != nil {
		return headgate.LeaseResult{}, err
	}
	r, guide, err := s.ruleOf(0, in.Bound)
	if err != nil {
		return headgate.LeaseResult{}, err
	}
	if guide != nil || !r.canLease {
		return headgate.LeaseResult{}, errUnsupported("lease", "leases require the layout of this store and "+algo.NamesWhere(headgate.Algorithm.CanLease))
	}
	o := r.newOp(now, in.Key, verbLease, min(max(in.Want, 0), maxUnits))
	o.hold = &holdOp{id: in.ID, lease: &leaseOp{
		previous: in.Previous, spent: in.Spent, max: min(in.Max, maxUnits), ttl: in.TTL.Microseconds(), maxOpen: int64(r.holds.MaxOpenOrDefault()),
	}}
	r.shared.markRefunded()
	if err := s.do(ctx, o); err != nil {
		return headgate.LeaseResult{}, err
	}
	l := o.hold.lease
	if l.status == holdConflict {
		return headgate.LeaseResult{}, fmt.Errorf("redisstore: %w: %d units of a lease were spent; must be 0 to the units of the lease", headgate.ErrInvalidHold, in.Spent)
	}
	result := headgate.LeaseResult{Decision: o.decision, Units: l.units, PreviousOpen: l.status == holdReplayed}
	if l.units > 0 {
		result.TTL = micros.Duration(l.deadline - o.timestamp.t)
	}
	o.recycle()
	return result, nil
}

// appendLeaseArgs appends the arguments of a lease to a run.
func (h *holdOp) appendLeaseArgs(b []byte) []byte {
	l := h.lease
	previous, id := algo.NameOf(l.previous), algo.NameOf(h.id)
	b = appendDouble(append(b, previous[:]...), l.spent)
	b = append(b, id[:]...)
	return appendDouble(appendDouble(appendDouble(b, l.max), l.ttl), l.maxOpen)
}

// readLease reads the result of a lease. It returns the state after the operation, if the
// rule has one.
func (o *op) readLease(r *reader, t int64) algo.State {
	l := o.hold.lease
	l.deadline, l.leased, l.status, l.units = r.double(0), r.double(0), r.next(1)[0], r.double(0)
	r.invalid = r.invalid || l.status > holdDenied
	if o.rule.log != nil {
		o.readAnswer(r)
		return algo.State{}
	}
	s, _ := r.state()
	_, ok := o.rule.step.Take(s, t, 1)
	o.after, o.decision = s, o.rule.withDeniedBy(o.rule.step.Answer(s, t, 1, 0, ok))
	return s
}

// raise returns the state s of a key of which some units are on lease: they stay spent.
func (r *rule) raise(s algo.State, t, leased int64) algo.State {
	if c, ok := r.step.(algo.Corrector); ok && leased > 0 {
		return c.Raise(s, t, leased)
	}
	return s
}
