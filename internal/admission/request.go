package admission

import (
	"context"
	"slices"
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
	q.slots = q.slots || c.Slots
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
	return q.combined(ctx, q.Take(ctx, q.Store, headgate.StoreClock))
}

// DecideAndHold is like Decide, and opens a hold that [Request.Settle] ends. The hold
// expires after ttl; the costs are then final.
func (q *Request) DecideAndHold(ctx context.Context, ttl time.Duration) (headgate.Decision, error) {
	return q.combined(ctx, q.Batch.Hold(ctx, q.Store, headgate.StoreClock, ttl))
}

// HasSlots reports whether a charge takes slots, so that DecideAndHold must decide.
func (q *Request) HasSlots() bool { return q.slots }

// CommitAsCharged ends the hold of DecideAndHold with the costs that were charged: units
// of rates stay spent, and slots become available. It does nothing if there is no hold.
func (q *Request) CommitAsCharged(ctx context.Context) {
	q.Adjust(ctx, func(int, int64) int64 { return AsCharged })
}

// AsCharged is an actual cost for [Request.Settle]: what the hold has charged, which may
// be less than the cost of the charge if the policy caps it.
const AsCharged = -1

// combined reports the decisions to the observer and returns the combined decision. err
// is the error of the store.
func (q *Request) combined(ctx context.Context, err error) (d headgate.Decision, _ error) {
	if q.Observer != nil {
		for i := range q.parts {
			p := &q.parts[i]
			q.observe(ctx, p, headgate.Take.String(), p.Cost, q.DecisionsOf(p), err)
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

// AwaitTurn blocks the allowed request for delay. If the request ends earlier, AwaitTurn
// cancels its reservation and returns the error of [turn.Await].
func (q *Request) AwaitTurn(ctx context.Context, delay time.Duration) error {
	err := q.Await(ctx, delay)
	if err == nil {
		return nil
	}
	ctx, done := turn.Detached(ctx)
	defer done()
	if cancelled, d, failed := q.CancelPlace(ctx, headgate.StoreClock); cancelled {
		p := &q.parts[0] // only a request with one limit has a reservation
		q.observe(ctx, p, "cancel", p.Cost, []headgate.Decision{d}, failed)
	}
	return err
}

// Settle ends the hold of DecideAndHold with the actual cost of each charge, or
// AsCharged, as if the costs had been charged at the beginning. The observer receives an
// event for each charge whose cost changed. Settle does nothing if there is no hold.
func (q *Request) Settle(ctx context.Context, actual []int64) {
	if !q.IsHeld() {
		return
	}
	ctx, done := turn.Detached(ctx)
	defer done()
	costs := make([]int64, 0, len(q.Ops))
	for i := range q.parts {
		for j := range q.parts[i].Charge.Limits {
			cost := actual[i]
			if l := &q.parts[i].Charge.Limits[j]; cost == AsCharged {
				cost = l.Rule.Holds.ChargedUnits(q.parts[i].Cost, l.Bound.Limit())
			}
			costs = append(costs, cost)
		}
	}
	opened := slices.Clone(q.Decisions)
	err := q.Commit(ctx, q.Store, headgate.StoreClock, costs)
	for i := range q.parts {
		p := &q.parts[i]
		if actual[i] == AsCharged {
			continue
		}
		if uncounted := q.uncounted(p, opened, costs); actual[i] != p.Cost || uncounted > 0 {
			q.observeCommit(ctx, p, actual[i], uncounted, err)
		}
	}
}

// Adjust is Settle with the costs that final returns. charged is the cost of charge i. If
// final panics, the costs of the remaining charges do not change.
func (q *Request) Adjust(ctx context.Context, final func(i int, charged int64) int64) {
	costs := make([]int64, len(q.parts))
	for i := range costs {
		costs[i] = AsCharged
	}
	defer q.Settle(ctx, costs) // also if final panics
	for i := range costs {
		costs[i] = final(i, q.parts[i].Cost)
	}
}

// uncounted returns how many units above the amount of the hold the limits of a charge
// have not counted; see [headgate.HoldResult]. opened has the decisions of the hold, and
// costs the actual cost of each op.
func (q *Request) uncounted(p *Part, opened []headgate.Decision, costs []int64) int64 {
	to := p.first + len(p.Charge.Limits)
	limits := make([]root.HeldLimit, len(p.Charge.Limits))
	for i := range limits {
		l, op := &p.Charge.Limits[i], p.first+i
		limits[i] = root.HeldLimit{Rule: l.Rule, Key: q.Ops[op].Key, Excess: costs[op] - l.Rule.Holds.ChargedUnits(p.Cost, l.Bound.Limit())}
	}
	// The error is not used, so the instant and the deadline can have any values.
	n, _ := root.HoldError(q.results[p.first:to], limits, 0, 1, root.Combine(opened[p.first:to]).Degraded)
	return n
}

// observeCommit reports the commit of a charge to the observer.
func (q *Request) observeCommit(ctx context.Context, p *Part, cost, uncounted int64, err error) {
	if q.Observer == nil {
		return
	}
	e := headgate.Event{Policy: p.Charge.Policy, Verb: "commit", Cost: cost, Err: err}
	if err == nil {
		e.Decision, e.Uncounted = root.Combine(q.DecisionsOf(p)), uncounted
	}
	root.Observe(ctx, q.Observer, e)
}

// observe reports a decision on one charge to the observer.
func (q *Request) observe(ctx context.Context, p *Part, verb string, cost int64, decisions []headgate.Decision, err error) {
	if q.Observer == nil {
		return
	}
	e := headgate.Event{Policy: p.Charge.Policy, Verb: verb, Cost: cost, Err: err}
	if err == nil {
		e.Decision = root.Combine(decisions)
	}
	root.Observe(ctx, q.Observer, e)
}
