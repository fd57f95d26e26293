package memcachedstore

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// ApplyLease ends a lease, begins a lease, or both; see [headgate.LeaseStore]. It is two
// round trips, as a take. The record of a lease is in the value of its key and takes at
// most 50 bytes.
func (s *Store) ApplyLease(ctx context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	b, err := s.boundOf(0, op.Bound)
	if err != nil {
		return headgate.LeaseResult{}, err
	}
	if !b.canLease {
		return headgate.LeaseResult{}, errCannotLease()
	}
	op.Want, op.Max = min(max(op.Want, 0), maxA), min(op.Max, maxA)
	q := &leaseRequest{bound: b, op: op}
	if err := s.do(ctx, &job{now: now, lease: q, done: make(chan struct{})}, []digest{b.scope.digest(op.Key)}); err != nil {
		return headgate.LeaseResult{}, err
	}
	if q.err != nil {
		return headgate.LeaseResult{}, fmt.Errorf("memcachedstore: %w", q.err)
	}
	return q.result, nil
}

// leaseRequest is a request on the leases of one key.
type leaseRequest struct {
	bound  *bound
	op     headgate.LeaseOp
	result headgate.LeaseResult
	err    error // why nothing was changed
}

func (q *leaseRequest) apply(c *cell, t int64) {
	c.expire(q.bound, t)
	a := c.account(q.bound)
	out, err := c.ledger.Lease(a, t, &q.op, q.bound.maxHolds())
	if q.err = err; err != nil {
		return
	}
	c.save(q.bound, a)
	q.result = headgate.LeaseResult{Decision: q.bound.withDeniedBy(q.bound.peekOne(c, t)), Units: out.Units, PreviousOpen: out.PreviousOpen}
	if out.Units > 0 {
		q.result.TTL = micros.Duration(out.Deadline - t)
	}
}

// peekOne returns the decision of a peek with cost 1 on the value of c.
func (b *bound) peekOne(c *cell, t int64) headgate.Decision {
	if b.log != nil {
		return b.log.Answer(c.log, t, 1, b.log.Fits(c.log, t, 1))
	}
	_, ok := b.step.Take(c.state, t, 1)
	return b.step.Answer(c.state, t, 1, 0, ok)
}

// leasedUntil returns the instant from which the value of c is unused if no lease is
// renewed: the units refill, or expire, after the last deadline.
func (c *cell) leasedUntil(b *bound) (last int64) {
	leased := c.ledger.Leased()
	for i := range c.ledger.Holds {
		last = max(last, c.ledger.Holds[i].Deadline)
	}
	switch {
	case leased == 0:
		return last
	case b.log != nil:
		return last + b.log.Params()[1]
	default:
		return max(last, b.step.ResetAt(b.corrector.Raise(algo.State{}, last, leased)))
	}
}

// reset makes the key unused, except for its leases.
func (c *cell) reset(b *bound, t int64) {
	if len(c.ledger.Holds) == 0 {
		return
	}
	a := c.account(b)
	c.ledger.Reset(a, t)
	c.save(b, a)
}

// spendLeasedAgain charges the units on lease again that a refund has returned from a
// log.
func (c *cell) spendLeasedAgain(b *bound, t int64) {
	if c.ledger.Leased() > 0 {
		c.ledger.Observe(c.account(b), t)
	}
}

var _ headgate.LeaseStore = (*Store)(nil)
