package storetest

import (
	"context"

	"github.com/headgate/headgate"
)

func (r *reference) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	t, err := r.begin(ctx, now)
	if err != nil {
		return err
	}
	defer r.mu.Unlock()
	if r.has(takesOneByOne) || r.has(refundsTakenTwice) || r.has(refundsNothingTaken) {
		r.takeOneByOne(ops, t, peek, decisions)
		return nil
	}
	x := newTransaction()
	all := r.has(takesPartially)
	if x.decide(ops, t, decisions) {
		all = true
	}
	if r.has(multiNotAtomic) {
		r.pause()
	}
	if !peek {
		x.save(ops, t, all, decisions)
	} else if r.has(peekDropsExpired) {
		for _, op := range ops {
			b := op.Bound.(*refBound)
			b.save(op.Key, b.withoutExpired(b.load(op.Key, t), t), t)
		}
	}
	return nil
}

// refTransaction contains the keys of one request: as they were, and as they are if it
// is allowed.
type refTransaction struct {
	before, after map[string]cell
	sums          map[string]int64
}

func newTransaction() refTransaction {
	return refTransaction{before: make(map[string]cell), after: make(map[string]cell), sums: make(map[string]int64)}
}

func (x *refTransaction) decide(ops []headgate.Op, t int64, decisions []headgate.Decision) bool {
	all := true
	for i, op := range ops {
		b := op.Bound.(*refBound)
		id := b.id(op.Key)
		if _, known := x.before[id]; !known {
			x.before[id], _ = b.take(b.load(op.Key, t), t, 0)
			x.after[id] = x.before[id]
		}
		if b.store.has(sameKeyTakenOnce) {
			x.sums[id] = max(x.sums[id], op.Cost)
		} else {
			x.sums[id] += min(op.Cost, 1<<62-x.sums[id])
		}
		next, ok := b.take(x.before[id], t, x.sums[id])
		if ok {
			x.after[id] = next
		}
		ok = ok || op.Cost == 0
		decisions[i] = b.answer(x.before[id], t, x.sums[id], 0, ok)
		all = all && ok
	}
	return all
}

func (x *refTransaction) save(ops []headgate.Op, t int64, all bool, decisions []headgate.Decision) {
	for i, op := range ops {
		b := op.Bound.(*refBound)
		id := b.id(op.Key)
		if !all {
			b.save(op.Key, x.before[id], t)
			continue
		}
		b.save(op.Key, x.after[id], t)
		if decisions[i].Allowed {
			delay := decisions[i].Delay
			decisions[i] = b.answer(x.after[id], t, op.Cost, 0, true)
			decisions[i].Delay = delay
		}
	}
}

// takeOneByOne takes from one key after another until one denies, and releases the lock
// in between. After a denial it refunds and decides on the state after the refunds; if
// the request fits by then, it tries again.
func (r *reference) takeOneByOne(ops []headgate.Op, t int64, peek bool, decisions []headgate.Decision) {
	for {
		var taken []takenOp
		x := newTransaction()
		if peek || r.takeUntilDenied(ops, t, &taken) {
			x.decide(ops, t, decisions)
			if !peek {
				describeTaken(&x, ops, t, decisions)
			}
			return
		}
		for i := len(taken) - 1; i >= 0; i-- {
			r.refundTaken(taken[i], t)
		}
		if !x.decide(ops, t, decisions) || r.has(refundsNothingTaken) {
			return
		}
	}
}

// takenOp is an op whose cost was taken, with the cells before and after the take.
type takenOp struct {
	headgate.Op
	before, after cell
}

func (r *reference) takeUntilDenied(ops []headgate.Op, t int64, taken *[]takenOp) bool {
	for _, op := range ops {
		b := op.Bound.(*refBound)
		before := b.load(op.Key, t)
		next, ok := b.take(before, t, op.Cost)
		if !ok {
			return false
		}
		b.save(op.Key, next, t)
		*taken = append(*taken, takenOp{op, before, r.cells[b.id(op.Key)]})
		r.pause()
	}
	return true
}

// refundTaken restores the cell from before a take. If another request has changed the
// cell since, it refunds the cost.
func (r *reference) refundTaken(op takenOp, t int64) {
	b := op.Bound.(*refBound)
	cost := op.Cost
	switch {
	case r.has(refundsNothingTaken):
		return
	case r.has(refundsTakenTwice):
		cost *= 2
	}
	if r.cells[b.id(op.Key)].sameState(op.after) && !r.has(refundsTakenTwice) {
		r.cells[b.id(op.Key)] = op.before
	} else if cost > 0 {
		b.save(op.Key, b.refund(b.load(op.Key, t), t, cost), t)
	}
}

// describeTaken writes the decisions of ops that were all taken.
func describeTaken(x *refTransaction, ops []headgate.Op, t int64, decisions []headgate.Decision) {
	for i, op := range ops {
		b := op.Bound.(*refBound)
		decisions[i] = b.answer(x.before[b.id(op.Key)], t, op.Cost, x.sums[b.id(op.Key)], true)
	}
}
