package redisstore

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// takeUpTo makes the calls one after another. Each call takes at most as many units as
// the call before. All calls but the last one open holds for their units. takeUpTo then
// commits these holds with the units of the last call, so that each key is charged only
// these units. If a call fails, takeUpTo cancels the holds.
//
// leaky_bucket has no holds. takeUpTo undoes its units as [Store.ApplyAll] does.
func (x *holdTransaction) takeUpTo(ctx context.Context) error {
	granted, last := int64(maxUnits), len(x.groups)-1
	for i, g := range x.groups {
		g.prepareTakeUpTo(granted, i < last, x.takeUpToTTL(ctx))
		x.store.send(ctx, []*group{g})
		if err := x.firstError(); err != nil {
			if last > 0 {
				x.correct(ctx, x.groups[:min(i+1, last)], 0) // the reply of call i may be lost
			}
			return err
		}
		granted = g.keys[0].ops[0].hold.granted
	}
	x.correctTakeUpTo(ctx, granted)
	return nil
}

// prepareTakeUpTo sets the arguments of a call that takes at most n units with each
// operation. If hold is true, it opens holds for them.
func (g *group) prepareTakeUpTo(n int64, hold bool, ttl time.Duration) {
	for _, k := range g.keys {
		for _, o := range k.ops {
			o.request.N = min(o.request.N, n)
			if hold && o.rule.canHold {
				o.hold.id, o.hold.ttl = headgate.NewHoldID(), ttl.Microseconds()
			}
		}
	}
}

// takeUpToTTL returns the TTL of the holds of takeUpTo. They are committed earlier:
// before the deadline of ctx and a timeout have passed.
func (x *holdTransaction) takeUpToTTL(ctx context.Context) time.Duration {
	ttl := x.store.options.Timeout + time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		ttl += time.Until(deadline)
	}
	return min(max(ttl, time.Minute), headgate.MaxHoldTTL)
}

// correctTakeUpTo corrects the calls before the last one, after which every operation has
// taken the given number of units.
func (x *holdTransaction) correctTakeUpTo(ctx context.Context, granted int64) {
	for _, c := range x.correct(ctx, x.groups[:len(x.groups)-1], granted) {
		if c.err != nil {
			continue
		}
		if c.request.Verb == verbUndo {
			c.decision = c.rule.step.Answer(c.after, c.timestamp.t, 0, 0, true)
		}
		for _, o := range c.group.find(c.redisKey).ops {
			o.decision = c.decision
		}
	}
	for _, o := range x.ops {
		o.hold.granted = granted
	}
}

// correction is an operation that corrects the charge of another operation.
type correction struct {
	*op
	corrected *op
	group     *group // the call that executed the other operation
}

// correct sends corrections of the operations of calls, after which each of them has
// charged n units. It sends them even if the caller's context has ended.
func (x *holdTransaction) correct(ctx context.Context, groups []*group, n int64) (all []correction) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer stop()
	var calls []*group
	for _, g := range groups {
		call, corrections := &group{now: g.now}, g.corrections(n)
		for _, c := range corrections {
			call.add(c.op)
		}
		if len(corrections) > 0 {
			all, calls = append(all, corrections...), append(calls, call)
		}
	}
	if len(calls) > 0 {
		x.store.send(ctx, calls)
	}
	return all
}

// corrections returns a correction for each operation of the call: a commit of its hold,
// of which the script keeps no record. If the algorithm has no holds, it returns an undo
// for each key, unless the result of the call is unknown.
func (g *group) corrections(n int64) (all []correction) {
	for _, k := range g.keys {
		if !k.ops[0].rule.canHold {
			if !g.failed {
				all = append(all, correction{k.undoAbove(n, g.decidedAt), k.ops[0], g})
			}
			continue
		}
		for _, o := range k.ops {
			if o.hold.asks {
				continue
			}
			c := &op{rule: o.rule, key: o.key, redisKey: o.redisKey, hold: &holdOp{id: o.hold.id, settings: o.hold.settings, undone: true}}
			c.request = algo.Request{Verb: verbCommit, T: o.request.T, N: n}
			all = append(all, correction{c, o, g})
		}
	}
	return all
}

// undoAbove returns an operation that undoes what each operation on the key has taken
// above n units at the instant at.
func (k *keyOps) undoAbove(n, at int64) *op {
	first, count := k.ops[0], int64(len(k.ops))
	o := &op{rule: first.rule, key: first.key, redisKey: k.redisKey, undoes: takeRecord{at: at}}
	o.undoes.before, _ = o.rule.step.Take(k.before, at, count*n)
	o.undoes.after, _ = o.rule.step.Take(k.before, at, count*first.hold.granted)
	o.request = algo.Request{Verb: verbUndo, T: first.request.T, N: count * (first.hold.granted - n)}
	return o
}
