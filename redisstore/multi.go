package redisstore

import (
	"context"
	"fmt"
	"math"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyAll takes the cost of every op, or of none; see [headgate.Store]. It is one
// atomic call if all keys may be in one call. Except in a cluster, all keys may. In a
// cluster, only keys in the same hash slot may: the limits on one key, and on keys that
// [Options.Group] groups together.
//
// Otherwise ApplyAll sends one call for each slot, all simultaneously. If one of them
// denies, ApplyAll undoes what the others took. It refunds only as many units as would
// certainly be available without this request; see Undo in package algo. Therefore
// ApplyAll never allows too much. Until a denied request has been undone, its cost is
// missing from the keys of the other calls. If another request took units of such a key
// in the meantime, some of that cost may stay spent.
func (s *Store) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if len(decisions) != len(ops) {
		return fmt.Errorf("redisstore: %w: len(decisions) is %d; must be %d, one for each op", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	if err := s.checkReady(ctx); err != nil {
		return err
	}
	x := transaction{callGroups: callGroups{store: s, mode: takeAll}}
	if peek {
		x.mode = peekAll
	}
	if err := x.read(now, ops); err != nil || len(ops) == 0 {
		return err
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	if err := x.runWithin(ctx); err != nil {
		for _, o := range x.ops {
			o.rule.shared.markLost()
		}
		return err
	}
	for i, o := range x.ops {
		decisions[i] = o.decision
		s.denials.invalidate(o)
	}
	return nil
}

// callGroups divides operations into script calls: one for each hash slot, or one if all
// keys may be in one call.
type callGroups struct {
	store  *Store
	mode   mode
	groups []*group
	bySlot map[string]*group
}

// add adds an operation to the call of its slot.
func (c *callGroups) add(o *op) {
	slot := ""
	if c.store.sharded.Load() {
		slot = tagOf(o.redisKey)
	}
	g := c.bySlot[slot]
	if g == nil {
		if c.bySlot == nil {
			c.bySlot = map[string]*group{}
		}
		g = &group{now: o.request.T, mode: c.mode}
		c.bySlot[slot], c.groups = g, append(c.groups, g)
	}
	g.add(o)
}

// checkSize returns an error if a call has more keys than a run can number.
func (c *callGroups) checkSize() error {
	for _, g := range c.groups {
		if n := len(g.keys); n > math.MaxUint16 {
			return fmt.Errorf("redisstore: %w: %d keys in one script call; must be at most %d", headgate.ErrInvalidPolicy, n, math.MaxUint16)
		}
	}
	return nil
}

// transaction is the state of one ApplyAll call.
type transaction struct {
	callGroups
	ops      []*op
	guideOps []*op // ops on keys in LayoutGuide, each of which needs its own call
}

// read converts the ops to operations and groups them into calls.
func (x *transaction) read(now headgate.Instant, ops []headgate.Op) error {
	for i, op := range ops {
		r, guide, err := x.store.ruleOf(i, op.Bound)
		if err != nil {
			return err
		}
		if r.onlyHolds && x.mode != peekAll {
			return errHoldRequired("take")
		}
		o := r.newOp(now, op.Key, algo.Take, op.Cost)
		x.ops = append(x.ops, o)
		if guide != nil {
			x.guideOps = append(x.guideOps, o)
			continue
		}
		x.add(o)
	}
	return x.checkSize()
}

// ruleOf returns the rule to which op i of a call is bound. guide is nil unless its keys
// are in LayoutGuide.
func (s *Store) ruleOf(i int, b headgate.Bound) (r *rule, guide *guideRule, err error) {
	r, _ = b.(*rule)
	guide, _ = b.(*guideRule)
	if guide != nil {
		r = guide.rule
	}
	if r == nil || r.store != s {
		return nil, nil, fmt.Errorf("redisstore: %w: op %d is bound to another store; bind its rule to this store", headgate.ErrInvalidPolicy, i+1)
	}
	return r, guide, nil
}

func (x *transaction) run(ctx context.Context) error {
	if len(x.guideOps) > 0 {
		return x.runWithGuides(ctx)
	}
	x.store.send(ctx, x.groups)
	err := x.firstError()
	if x.mode == peekAll || len(x.groups) == 1 {
		return err
	}
	if err == nil && x.allTaken() {
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

func (x *transaction) allTaken() bool {
	for _, g := range x.groups {
		if !g.taken {
			return false
		}
	}
	return true
}

// undo refunds the units that the allowed groups have taken, and replaces the decisions
// of these groups by those of a peek. It sends the refunds even if the caller's context
// has ended. Units that cannot be refunded stay spent.
func (x *transaction) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer cancel()
	var undos []*group
	var undone []*group
	for _, g := range x.groups {
		if g.taken {
			undone = append(undone, g)
			undos = append(undos, g.undoGroup())
		}
	}
	if len(undos) == 0 {
		return
	}
	x.store.send(ctx, undos)
	for _, g := range undos {
		g.invalidateDenials(x.store)
	}
	for i, g := range undone {
		g.decide(true)
		g.copyLogDecisions(undos[i])
	}
}

// invalidateDenials removes the cached denials of the keys for which this group has
// refunded units.
func (g *group) invalidateDenials(s *Store) {
	for _, k := range g.keys {
		for _, o := range k.ops {
			if o.err != nil {
				o.rule.shared.markRefunded()
			} else {
				s.denials.invalidate(o)
			}
		}
	}
}

// undoGroup returns a group of operations that undo what this group took.
func (g *group) undoGroup() *group {
	back := &group{now: g.now}
	for _, k := range g.keys {
		last := k.ops[len(k.ops)-1]
		o := &op{rule: last.rule, key: last.key, redisKey: k.redisKey, undoes: takeRecord{before: k.before, after: k.after, at: g.decidedAt}}
		o.request = algo.Request{Verb: verbUndo, T: last.request.T}
		o.request.N = k.units()
		if k.log {
			o.undoes.at = last.newestEntryAt(g.decidedAt)
		}
		back.add(o)
	}
	return back
}

// units returns the number of units that all operations on the key took together. It
// returns 0, which means unknown, if the operations had different limits.
func (k *keyOps) units() (total int64) {
	for _, o := range k.ops {
		if !k.log && o.rule != k.ops[0].rule {
			return 0
		}
		total += o.request.N
	}
	return total
}

// newestEntryAt returns the instant at which a log recorded the units that were taken
// at the instant t. It differs from t if the clock went back.
func (o *op) newestEntryAt(t int64) int64 {
	return t + o.decision.ResetAfter.Microseconds() - o.rule.log.Params()[1]
}

// copyLogDecisions replaces the decisions about logs by the decisions after the undo,
// which are in the group back.
func (g *group) copyLogDecisions(back *group) {
	for _, k := range g.keys {
		if !k.log {
			continue
		}
		after := back.find(k.redisKey).ops[0]
		if after.err != nil {
			continue
		}
		for _, o := range k.ops {
			o.decision = after.decision
		}
	}
}

// tagOf returns the part of a Redis key that determines its hash slot.
func tagOf(redisKey string) string { return redisKey[len("hg:{"):][:hashLength] }
