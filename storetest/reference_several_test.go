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
	x := refTransaction{before: make(map[string]cell), after: make(map[string]cell), sums: make(map[string]int64)}
	all := r.has(chargesInPart)
	if x.decide(ops, t, decisions) {
		all = true
	}
	if r.has(severalApart) {
		r.pause()
	}
	if !peek {
		x.save(ops, t, all, decisions)
	} else if r.has(peekRemembers) {
		for _, op := range ops {
			b := op.Bound.(*refBound)
			b.save(op.Key, b.settledAt(b.load(op.Key, t), t), t)
		}
	}
	return nil
}

// refTransaction has the keys of one request: as they were, and as they are if it is admitted.
type refTransaction struct {
	before, after map[string]cell
	sums          map[string]int64
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
		if b.store.has(paysOnce) {
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
