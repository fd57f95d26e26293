package admission

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
	"github.com/headgate/headgate/internal/turn"
)

// Core has what all requests to one middleware or service share.
type Core struct {
	Store    headgate.Store
	Observer headgate.Observer // receives an event for each charge; nil means no observer
}

// maxTries is the maximum number of attempts of spend, because other requests may spend
// the units between two attempts.
const maxTries = 3

// Request is one request with several charges. With Core set, the zero value is ready
// for use. [Request.Reset] keeps the memory.
type Request struct {
	*Core
	Batch
	parts []Part
}

// Part is one charge of a request.
type Part struct {
	Charge *Charge
	Cost   int64
	first  int // index of the first op of this charge
}

// Reset empties the request, keeping its memory.
func (q *Request) Reset() {
	clear(q.parts)
	q.Batch.Reset()
	q.Core, q.parts = nil, q.parts[:0]
}

// Charge adds a charge to the request.
func (q *Request) Charge(c *Charge, key string, cost int64) {
	q.parts = append(q.parts, Part{c, cost, len(q.Ops)})
	for i := range c.Limits {
		q.Add(c.Limits[i].Bound, c.Queues, key, cost)
	}
}

// Parts returns the charges in the order in which they were added.
func (q *Request) Parts() []Part { return q.parts }

// DecisionsOf returns the decisions of one charge, one for each of its limits.
func (q *Request) DecisionsOf(p *Part) []headgate.Decision {
	return q.Decisions[p.first : p.first+len(p.Charge.Limits)]
}

// Decide makes all charges or none, and returns the combined decision. There must be at
// least one charge.
func (q *Request) Decide(ctx context.Context) (d headgate.Decision, err error) {
	err = q.Take(ctx, q.Store, headgate.StoreClock)
	if q.Observer != nil {
		for i := range q.parts {
			p := &q.parts[i]
			q.observe(p, headgate.Take.String(), p.Cost, q.DecisionsOf(p), err)
		}
	}
	switch {
	case err != nil:
		return d, err
	case len(q.Decisions) == 1:
		return q.Decisions[0], nil
	default:
		return root.Combine(q.Decisions), nil
	}
}

// Hold blocks the allowed request for delay. If the request ends earlier, Hold releases
// its units and returns the error of [turn.Await].
func (q *Request) Hold(ctx context.Context, delay time.Duration) error {
	err := q.Await(ctx, delay)
	if err == nil {
		return nil
	}
	ctx, done := turn.Detached(ctx)
	defer done()
	for i := range q.parts {
		q.releasePart(ctx, &q.parts[i], q.parts[i].Cost)
	}
	return err
}

// Settle changes the units of one charge to cost. It refunds the difference, or spends
// the difference as far as units remain. For a request that may be settled, call
// [Batch.MarkTaken] before Decide.
func (q *Request) Settle(ctx context.Context, p *Part, cost int64) {
	ctx, done := turn.Detached(ctx)
	defer done()
	switch {
	case cost < p.Cost:
		q.releasePart(ctx, p, p.Cost-cost)
	case cost > p.Cost:
		q.spend(ctx, p, cost-p.Cost)
	}
}

// releasePart releases units of each limit of a charge; see [Batch.Release]. Units that
// cannot be released stay spent.
func (q *Request) releasePart(ctx context.Context, p *Part, units int64) {
	done := turn.Keep
	var failed error
	var decisions []headgate.Decision
	for i := range p.Charge.Limits {
		did, d, err := q.Release(ctx, headgate.StoreClock, p.first+i, units)
		if did == turn.Keep {
			continue
		}
		if done = max(done, did); err != nil {
			failed = err
		}
		decisions = append(decisions, d)
	}
	if len(decisions) > 0 {
		q.observe(p, done.String(), units, decisions, failed)
	}
}

// spend spends at most units more units under a charge, the same number from each
// limit.
func (q *Request) spend(ctx context.Context, p *Part, units int64) {
	var more Batch
	for i, l := range p.Charge.Limits {
		more.Add(l.Bound, p.Charge.Queues, q.Ops[p.first+i].Key, units)
	}
	for range maxTries {
		for i := range more.Ops {
			more.Ops[i].Cost = units
		}
		err := q.Store.ApplyAll(ctx, headgate.StoreClock, more.Ops, false, more.Decisions)
		all := root.Combine(more.Decisions)
		if err != nil || all.Allowed {
			q.observe(p, headgate.Take.String(), units, more.Decisions, err)
			return
		}
		if units = min(units, all.Remaining); units == 0 {
			return
		}
	}
}

// observe reports a decision on one charge to the observer.
func (q *Request) observe(p *Part, verb string, cost int64, decisions []headgate.Decision, err error) {
	if q.Observer == nil {
		return
	}
	e := headgate.Event{Policy: p.Charge.Policy, Verb: verb, Cost: cost, Err: err}
	if err == nil {
		e.Decision = root.Combine(decisions)
	}
	q.Observer.Observe(e)
}
