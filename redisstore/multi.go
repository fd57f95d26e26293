package redisstore

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyAll takes from every op or from none; see [headgate.Store]. Where all keys may stand in one call (always, but in a cluster
// only those of one slot: the limits on one key, and keys that Options.Group puts together) it is one call and atomic. Otherwise all
// slots are asked at once, and if one denies, what the others took is undone, as far as it is certain that no key is then richer than
// if nothing had been taken (see Undo in package algo). So never too much is admitted; for each request that is denied, a key may for
// a moment be poorer by its cost, and where others took from it meanwhile some of that may stay spent.
func (s *Store) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if len(decisions) != len(ops) {
		return fmt.Errorf("redisstore: %w: %d decisions for %d ops", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	x := transaction{store: s, mode: takeAll}
	if peek {
		x.mode = peekAll
	}
	if err := x.read(now, ops); err != nil || len(ops) == 0 {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := x.run(ctx); err != nil {
		for _, o := range x.ops {
			o.rule.share.lost()
		}
		return err
	}
	for i, o := range x.ops {
		decisions[i] = o.decision
		s.denials.end(o)
	}
	return nil
}

// transaction is one ApplyAll.
type transaction struct {
	store  *Store
	mode   mode
	ops    []*op
	groups []*group
	guides []*op // keys in the guides' layout, each for itself
}

// read sorts the ops into calls.
func (x *transaction) read(now headgate.Instant, ops []headgate.Op) error {
	bySlot := map[string]*group{}
	for i, given := range ops {
		r, guide, err := x.ruleOf(i, given.Bound)
		if err != nil {
			return err
		}
		o := r.newOp(now, given.Key, algo.Take, given.Cost)
		x.ops = append(x.ops, o)
		if guide != nil {
			x.guides = append(x.guides, o)
			continue
		}
		slot := ""
		if x.store.sharded.Load() {
			slot = tagOf(o.name)
		}
		if bySlot[slot] == nil {
			bySlot[slot] = &group{now: o.request.T, mode: x.mode}
			x.groups = append(x.groups, bySlot[slot])
		}
		bySlot[slot].add(o)
	}
	return nil
}

func (x *transaction) ruleOf(i int, b headgate.Bound) (*rule, *guideRule, error) {
	r, _ := b.(*rule)
	guide, _ := b.(*guideRule)
	if guide != nil {
		r = guide.rule
	}
	if r == nil || r.store != x.store {
		return nil, nil, fmt.Errorf("redisstore: %w: op %d is bound by another store", headgate.ErrInvalidPolicy, i+1)
	}
	return r, guide, nil
}

func (x *transaction) run(ctx context.Context) error {
	if len(x.guides) > 0 {
		return x.runGuides(ctx)
	}
	x.store.send(ctx, x.groups)
	err := x.firstError()
	if x.mode == peekAll || len(x.groups) == 1 {
		return err
	}
	if err == nil && x.allSpent() {
		return nil
	}
	x.undo(ctx)
	return err
}

func (x *transaction) firstError() error {
	for _, o := range x.ops {
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

func (x *transaction) allSpent() bool {
	for _, g := range x.groups {
		if !g.spent {
			return false
		}
	}
	return true
}

// undo gives back what the groups that admitted have spent, and answers for them as if they had only been asked. It is sent also
// when the caller's time is over: what cannot be undone stays spent.
func (x *transaction) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer cancel()
	var back []*group
	var undone []*group
	for _, g := range x.groups {
		if g.spent {
			undone = append(undone, g)
			back = append(back, g.undoing())
		}
	}
	if len(back) == 0 {
		return
	}
	x.store.send(ctx, back)
	for _, g := range back {
		g.forget(x.store)
	}
	for i, g := range undone {
		g.decide(true)
		g.answerLogs(back[i])
	}
}

// forget sees that nobody is denied for units that this group has given back.
func (g *group) forget(s *Store) {
	for _, k := range g.keys {
		for _, o := range k.ops {
			if o.err != nil {
				o.rule.share.giveBack()
			} else {
				s.denials.end(o)
			}
		}
	}
}

// undoing is a group that takes back what this one has spent.
func (g *group) undoing() *group {
	back := &group{now: g.now}
	for _, k := range g.keys {
		last := k.ops[len(k.ops)-1]
		o := &op{rule: last.rule, key: last.key, name: k.name, taken: taken{was: k.before, after: k.after, at: g.t}}
		o.request = algo.Request{Verb: undo, T: last.request.T}
		o.request.N = k.spent()
		if k.log {
			o.taken.at = last.newestAt(g.t)
		}
		back.add(o)
	}
	return back
}

// spent is how many units all operations on the key have taken; 0, for unknown, if they were under different limits.
func (k *keyOps) spent() (units int64) {
	for _, o := range k.ops {
		if !k.log && o.rule != k.ops[0].rule {
			return 0
		}
		units += o.request.N
	}
	return units
}

// newestAt is the instant under which a log has entered what was just taken at t: not t if the clock has gone back.
func (o *op) newestAt(t int64) int64 {
	return t + o.decision.ResetAfter.Microseconds() - o.rule.log.Params()[1]
}

// answerLogs takes the answers for logs from those after the undoing.
func (g *group) answerLogs(back *group) {
	for _, k := range g.keys {
		if !k.log {
			continue
		}
		after := back.find(k.name).ops[0]
		if after.err != nil {
			continue
		}
		for _, o := range k.ops {
			o.decision = after.decision
		}
	}
}

// tagOf is the part of a name that decides its slot.
func tagOf(name string) string { return name[len("hg:{"):][:hashText] }
