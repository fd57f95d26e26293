package memcachedstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// MaxOpenHolds is the maximum number of open holds of a key, also if
// [headgate.HoldSettings] permits more. With it, a value always fits into memcached's
// default item size, 1 MiB.
const MaxOpenHolds = 10_000

// ApplyHolds executes verb on every op; see [headgate.HoldStore]. Opening holds on
// several keys has the same guarantees as [Store.ApplyAll]. The other operations are
// atomic for each key: after an error with [headgate.ReasonTimedOut], some keys may have
// changed. Repeat the call then.
func (s *Store) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if len(results) != len(ops) {
		return 0, fmt.Errorf("memcachedstore: %w: len(results) is %d; must be %d, one for each op", headgate.ErrInvalidPolicy, len(results), len(ops))
	}
	if len(ops) == 0 {
		return 0, ctx.Err()
	}
	q, keys, err := s.newHoldRequest(verb, ttl, ops)
	if err != nil {
		return 0, err
	}
	if err := s.do(ctx, &job{now: now, holds: q, done: make(chan struct{})}, keys); err != nil {
		return 0, err
	}
	copy(results, q.results)
	return headgate.Instant(q.at), q.err
}

// holdRequest is a request on the holds of one or several keys.
type holdRequest struct {
	verb    headgate.HoldVerb
	ttl     int64 // in µs
	ops     []holdOp
	results []headgate.HoldResult
	at      int64 // instant of the operation
	err     error // why no hold was opened, other than a denial
}

// holdOp is one op of a holdRequest. The field cell is the index of its key.
type holdOp struct {
	bound   *bound
	cell    int
	id      headgate.HoldID
	private bool
	cost    int64 // cost of the request, which the policy may cap
	units   int64
	first   int   // index of the first op on the same hold
	sum     int64 // units of all ops on the same hold, if this op is the first one
	sumCost int64 // the same for the costs

	record algo.EndedHold // record of the hold, if it was read and exists
}

func (s *Store) newHoldRequest(verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp) (*holdRequest, []digest, error) {
	q := &holdRequest{verb: verb, ttl: ttl.Microseconds(), ops: make([]holdOp, len(ops)), results: make([]headgate.HoldResult, len(ops))}
	digests := make([]digest, len(ops))
	for i := range ops {
		in := &ops[i]
		b, err := s.boundOf(i, in.Bound)
		if err != nil {
			return nil, nil, err
		}
		if b.onlyHolds && verb > headgate.ExtendHold {
			return nil, nil, errHoldRequired("apply")
		}
		if !b.canApply(verb) {
			return nil, nil, errCannotHold()
		}
		digests[i] = b.scope.digest(in.Key)
		q.ops[i] = holdOp{bound: b, id: in.ID, private: in.Private, cost: in.Cost, units: in.Cost, first: i}
		if verb == headgate.OpenHold {
			q.ops[i].units = b.holds.ChargedUnits(in.Cost, b.limit)
		}
	}
	err := algo.CheckLimits(verb, len(ops), func(i int) (digest, headgate.Limit) { return digests[i], q.ops[i].bound.ruleLimit })
	if err != nil {
		return nil, nil, fmt.Errorf("memcachedstore: %w", err)
	}
	keys, cells := sortedKeys(digests)
	for i := range q.ops {
		q.ops[i].cell = cells[i]
		q.join(i)
	}
	if verb == headgate.OpenHold {
		q.setSums(keys)
	}
	return q, keys, nil
}

// setSums adds the checksums of the requests to the ids of the holds to open.
func (q *holdRequest) setSums(keys []digest) {
	sums := algo.RequestChecksums{}
	for i := range q.ops {
		if op := &q.ops[i]; op.first == i {
			sums.Add(op.id, binary.BigEndian.Uint64(keys[op.cell][:]), op.sumCost)
		}
	}
	for i := range q.ops {
		q.ops[i].id = sums.ID(q.ops[i].id)
	}
}

// join adds op i to the first op on the same hold.
func (q *holdRequest) join(i int) {
	op := &q.ops[i]
	for j := range i {
		if o := &q.ops[j]; o.cell == op.cell && o.id == op.id && q.verb <= headgate.ExtendHold {
			op.first = o.first
			break
		}
	}
	first := &q.ops[op.first]
	first.sum = min(first.sum+min(op.units, maxA), maxA)
	first.sumCost = min(first.sumCost+min(op.cost, maxA), maxA)
}

// canApply reports whether the algorithm of the bound supports verb. A leaky bucket has
// promised delays, so its charges cannot be corrected.
func (b *bound) canApply(verb headgate.HoldVerb) bool {
	return b.canHold || verb == headgate.Debit || verb == headgate.TakeUpTo
}

// apply executes the request on the values in cells at t.
func (q *holdRequest) apply(cells []*cell, t int64) {
	q.at, q.err = t, nil
	x := holdChange{holdRequest: q, cells: cells, accounts: make([]algo.Account, len(cells)), changed: make([]bool, len(cells))}
	for i := range q.ops {
		op := &q.ops[i]
		cells[op.cell].expire(op.bound, t)
		if x.accounts[op.cell] == nil {
			x.accounts[op.cell] = cells[op.cell].account(op.bound)
		}
	}
	switch q.verb {
	case headgate.OpenHold:
		x.open()
	case headgate.CommitHold, headgate.ExtendHold:
		x.changeHolds()
	case headgate.TakeUpTo:
		x.takeUpTo()
	default:
		for i := range q.ops {
			op := &q.ops[i]
			x.change(op, op.units, func(a algo.Account) { a.Charge(t, op.units) })
		}
		x.answer(headgate.HoldResult{})
	}
	for i := range q.ops {
		if op := &q.ops[i]; x.changed[op.cell] {
			cells[op.cell].save(op.bound, x.accounts[op.cell])
		}
	}
}

// denied reports whether no hold was opened.
func (q *holdRequest) denied() bool {
	if q.verb != headgate.OpenHold {
		return false
	}
	for i := range q.results {
		if !q.results[i].Allowed {
			return true
		}
	}
	return q.err != nil
}

// holdChange is one execution of a holdRequest.
type holdChange struct {
	*holdRequest
	cells    []*cell
	accounts []algo.Account // account of each cell
	changed  []bool         // whether each cell has changed
}

// change spends n units of an op's key by calling do, and updates the open holds of the
// key. With no units, the state is not even converted to another limit.
func (x *holdChange) change(op *holdOp, n int64, do func(algo.Account)) {
	if n == 0 {
		return
	}
	a, ledger := x.accounts[op.cell], &x.cells[op.cell].ledger
	ledger.Prepare(a, x.at)
	do(a)
	ledger.Observe(a, x.at)
	x.changed[op.cell] = true
}

// open opens a hold for every op, or for none.
func (x *holdChange) open() {
	conflict, replayed, full := false, false, -1
	for i := range x.ops {
		op := &x.ops[i]
		known, ok := x.opened(op)
		open := len(x.cells[op.cell].ledger.Holds)
		switch {
		case ok:
			conflict, replayed = conflict || known.ID != op.id, true
		case open >= op.bound.maxHolds():
			full = open
		}
	}
	switch {
	case conflict:
		x.err = fmt.Errorf("memcachedstore: %w: it was opened with other keys or costs;"+
			" use another id, or repeat the first request", headgate.ErrHoldConflict)
	case replayed:
		x.answer(headgate.HoldResult{Replayed: true})
		x.setDeadlines()
	case full >= 0:
		x.err = fmt.Errorf("memcachedstore: %w: the key has %d; commit or cancel some, or raise the maximum (max_open)", headgate.ErrTooManyHolds, full)
	case x.decide():
		x.openAll()
		x.answer(headgate.HoldResult{})
		x.setDeadlines()
	}
}

// opened returns an op's hold if it is open or was ended before its deadline.
func (x *holdChange) opened(op *holdOp) (algo.EndedHold, bool) {
	c := x.cells[op.cell]
	if i := c.ledger.Find(op.id); i >= 0 {
		return algo.EndedHold{ID: c.ledger.Holds[i].ID, Deadline: c.ledger.Holds[i].Deadline}, true
	}
	return c.endedHold(op, x.at)
}

// setDeadlines sets the deadlines of the results of holds that were opened, now or
// before.
func (x *holdChange) setDeadlines() {
	for i := range x.ops {
		if known, ok := x.opened(&x.ops[i]); ok {
			x.results[i].Deadline = headgate.Instant(known.Deadline)
		}
	}
}

// decide decides whether the units of all ops are available. If not, it stores the
// decisions.
func (x *holdChange) decide() bool {
	targets, debits := make([]algo.Target, len(x.cells)), make([]algo.Debit, len(x.ops))
	for i := range x.ops {
		op := &x.ops[i]
		c := x.cells[op.cell]
		targets[op.cell].State, targets[op.cell].Log, targets[op.cell].Holds = c.state, c.log, &c.ledger
		debits[i] = algo.Debit{Step: op.bound.step, Log: op.bound.log, Target: &targets[op.cell], N: op.units}
	}
	decisions := make([]headgate.Decision, len(x.ops))
	all := algo.DebitAll(debits, x.at, true, decisions)
	for i := range x.ops {
		x.results[i] = headgate.HoldResult{Decision: x.ops[i].bound.withDeniedBy(decisions[i])}
	}
	return all
}

func (x *holdChange) openAll() {
	for i := range x.ops {
		op := &x.ops[i]
		if op.first != i {
			continue
		}
		x.change(op, op.sum, func(a algo.Account) { a.Take(x.at, op.sum) })
		x.changed[op.cell] = true
		c := x.cells[op.cell]
		c.ledger.Open(x.accounts[op.cell], x.at, op.id, op.sum, x.at+x.ttl)
		c.pendingDebit.holds = append(c.pendingDebit.holds, openedHold{op.id, op.bound})
	}
}

// changeHolds commits or extends the hold of every op.
func (x *holdChange) changeHolds() {
	for i := range x.ops {
		if op := &x.ops[i]; op.first == i {
			x.results[i] = x.changeHold(op)
		} else {
			x.results[i] = x.results[op.first]
		}
	}
	for i := range x.ops {
		x.results[i].Decision = x.peekAfter(i)
	}
}

// changeHold commits or extends the hold of one op. It returns the result without the
// decision.
func (x *holdChange) changeHold(op *holdOp) (result headgate.HoldResult) {
	c := x.cells[op.cell]
	i := c.ledger.Find(op.id)
	switch {
	case i < 0:
		if _, ended := c.endedHold(op, x.at); ended && x.verb == headgate.CommitHold {
			result.Replayed = true
		} else {
			result.Err = headgate.ErrUnknownHold
		}
	case x.verb == headgate.ExtendHold:
		c.ledger.Extend(i, x.at+x.ttl)
		result.Deadline = headgate.Instant(x.at + x.ttl)
		x.changed[op.cell] = true
	default:
		c.addEnded(op, c.ledger.Holds[i])
		c.ledger.End(x.accounts[op.cell], x.at, i, op.sum, op.bound.holds.ExcessPolicy == headgate.ClipExcess)
		x.changed[op.cell] = true
	}
	return result
}

// takeUpTo takes as many units as remain under every op, but at most the cost.
func (x *holdChange) takeUpTo() {
	perCell := make([]int64, len(x.cells))
	for i := range x.ops {
		perCell[x.ops[i].cell]++
	}
	granted := int64(maxA)
	for i := range x.ops {
		op := &x.ops[i]
		granted = min(granted, op.units, x.accounts[op.cell].Remaining(x.at)/perCell[op.cell])
	}
	for i := range x.ops {
		x.change(&x.ops[i], granted, func(a algo.Account) { a.Take(x.at, granted) })
	}
	x.answer(headgate.HoldResult{Granted: granted})
}

// answer stores a copy of result for every op, with the decision of a peek with cost 0.
func (x *holdChange) answer(result headgate.HoldResult) {
	for i := range x.ops {
		x.results[i] = result
		x.results[i].Decision = x.peekAfter(i)
	}
}

// peekAfter returns the decision of a peek with cost 0 on the state after the request.
func (x *holdChange) peekAfter(i int) headgate.Decision {
	op := &x.ops[i]
	if op.bound.log != nil {
		return op.bound.log.Answer(x.cells[op.cell].log, x.at, 0, true)
	}
	return x.cells[op.cell].ledger.Answer(op.bound.step, x.accounts[op.cell].(*algo.StateAccount).State, x.at, 0, 0, true)
}
