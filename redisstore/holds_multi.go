package redisstore

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyHolds executes verb on every op; see [headgate.HoldStore]. It is one atomic call
// if all keys may be in one call, as in [Store.ApplyAll]. Otherwise it sends one call for
// each hash slot. If one of them does not open its holds, ApplyHolds cancels the holds
// that the others opened, which has the effect that they were never opened. TakeUpTo
// makes the calls one after another, and corrects what the earlier ones have taken; see
// [holdTransaction.takeUpTo].
func (s *Store) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if len(results) != len(ops) {
		return 0, fmt.Errorf("redisstore: %w: len(results) is %d; must be %d, one for each op", headgate.ErrInvalidPolicy, len(results), len(ops))
	}
	if err := s.checkReady(ctx); err != nil || len(ops) == 0 {
		return 0, err
	}
	x := holdTransaction{callGroups: callGroups{store: s}, verb: verb}
	switch {
	case verb == headgate.OpenHold:
		x.mode = openAll
	case verb == headgate.TakeUpTo && len(ops) > 1:
		x.mode, ttl = takeUpToAll, 0
	}
	if err := x.read(now, ttl, ops); err != nil {
		return 0, err
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	err := x.run(ctx)
	for i, o := range x.opOf {
		if o.rule.shared.markRefunded(); err == nil {
			results[i] = o.holdResult()
			if o.hold.several && o.hold.status == holdDenied {
				results[i].Decision = x.decisionOf(i)
			}
		}
	}
	return headgate.Instant(x.ops[0].timestamp.t), err
}

// holdTransaction is the state of one ApplyHolds call.
type holdTransaction struct {
	callGroups
	verb headgate.HoldVerb
	ops  []*op         // one for each key and id
	opOf []*op         // the operation of each op of the call
	same map[opKey]*op // nil if the call has one op
	// asked is the number of units of each op and of the earlier ops with its key, or 0
	// if the op has none. asks has an operation for each op whose decision is computed by
	// the script if the hold of several ops is denied, and otherwise nil.
	asked []int64
	asks  []*op
}

// opKey identifies the ops of a call that are one operation.
type opKey struct {
	redisKey string
	id       headgate.HoldID
}

// read converts the ops to operations and groups them into calls. Ops with the same key
// and id are one operation with the sum of their costs, except those of TakeUpTo.
func (x *holdTransaction) read(now headgate.Instant, ttl time.Duration, ops []headgate.HoldOp) error {
	checked := make([]*op, 0, len(ops)) // one for each op of the call
	if len(ops) > 1 {
		x.same = make(map[opKey]*op, len(ops))
	}
	for i := range ops {
		in := &ops[i]
		r, guide, err := x.store.ruleOf(i, in.Bound)
		if err != nil {
			return err
		}
		if guide != nil {
			return errGuideHolds()
		}
		o, err := r.newHoldOp(now, x.verb, ttl, in)
		if err != nil {
			return err
		}
		checked = append(checked, o)
		key := opKey{o.redisKey, o.hold.id}
		if same := x.same[key]; same != nil && x.mode != takeUpToAll {
			same.request.N = min(same.request.N+o.request.N, x.maxSum())
			same.hold.cost = min(same.hold.cost+o.hold.cost, maxUnits)
			same.hold.several = true
			x.opOf = append(x.opOf, same)
			continue
		}
		if x.same != nil {
			x.same[key] = o
		}
		x.ops, x.opOf = append(x.ops, o), append(x.opOf, o)
		x.add(o)
	}
	setSums(x.verb, x.ops...)
	err := algo.CheckLimits(x.verb, len(checked), func(i int) (string, headgate.Limit) { return checked[i].redisKey, checked[i].rule.ruleLimit })
	if err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	x.ask(ops)
	return x.checkSize()
}

// ask sets the number of units that each op asks for, and adds the operations that decide
// single ops. A denied hold has the decision of each op, not that of their sum.
func (x *holdTransaction) ask(ops []headgate.HoldOp) {
	if x.verb != headgate.OpenHold || len(x.ops) == len(ops) {
		return
	}
	x.asked, x.asks = make([]int64, len(ops)), make([]*op, len(ops))
	totals := make(map[string]int64, len(ops))
	for i, o := range x.opOf {
		units := o.rule.holds.ChargedUnits(ops[i].Cost, o.rule.limit)
		if total := min(totals[o.redisKey]+min(units, maxCost), maxCost); units > 0 {
			totals[o.redisKey], x.asked[i] = total, total
		}
		if !o.hold.several || o.rule.log == nil && !o.rule.onlyHolds {
			continue
		}
		a := &op{rule: o.rule, key: o.key, redisKey: o.redisKey, request: o.request, hold: &holdOp{id: o.hold.id, settings: o.hold.settings, private: true, asks: true}}
		a.request.N = x.asked[i]
		x.asks[i] = a
		x.add(a)
	}
}

// decisionOf returns the decision of op i, if the hold of this op and of others is
// denied.
func (x *holdTransaction) decisionOf(i int) headgate.Decision {
	if a := x.asks[i]; a != nil {
		return a.decision
	}
	o, n := x.opOf[i], x.asked[i]
	if _, ok := o.rule.step.Take(o.after, o.timestamp.t, n); ok {
		return o.rule.step.Answer(o.after, o.timestamp.t, 0, 0, true)
	}
	return o.rule.withDeniedBy(o.rule.step.Answer(o.after, o.timestamp.t, n, 0, false))
}

// maxSum returns the number that takes the place of a larger sum of units. A hold of this
// number is denied under every limit.
func (x *holdTransaction) maxSum() int64 {
	if x.verb == headgate.OpenHold {
		return maxCost
	}
	return maxUnits
}

// setSums adds the checksums of the requests to the ids of holds that are opened. No
// other request has the id of a private hold, so that needs no checksum.
func setSums(verb headgate.HoldVerb, ops ...*op) {
	if verb != headgate.OpenHold || ops[0].hold.private {
		return
	}
	sums := algo.RequestChecksums{}
	for _, o := range ops {
		key := fnv.New64a()
		_, _ = key.Write([]byte(o.redisKey))
		sums.Add(o.hold.id, key.Sum64(), o.hold.cost)
	}
	for _, o := range ops {
		o.hold.id = sums.ID(o.hold.id)
	}
}

func (x *holdTransaction) run(ctx context.Context) error {
	if x.mode == takeUpToAll && len(x.groups) > 1 {
		return x.takeUpTo(ctx)
	}
	x.store.send(ctx, x.groups)
	err := x.firstError()
	if x.verb == headgate.OpenHold {
		x.cancel(ctx, x.partlyOpened())
	}
	return err
}

// firstError returns the first error of a call. For holds that are opened, it includes
// the errors of single keys: a conflict before too many holds.
func (x *holdTransaction) firstError() error {
	var full error
	for _, o := range x.ops {
		switch {
		case o.err != nil:
			return o.err
		case x.verb != headgate.OpenHold:
		case o.hold.status == holdConflict:
			return o.hold.err()
		case full == nil:
			full = o.hold.err()
		}
	}
	return full
}

// partlyOpened returns the calls whose holds must be cancelled, because another call has
// not opened its holds. A call without a reply may have opened its holds. They are
// cancelled as well if the id is private; otherwise an earlier request may have opened
// them, and the caller can repeat the request. A hold that was opened before is not
// cancelled.
func (x *holdTransaction) partlyOpened() (opened []*group) {
	all, failed := true, 0
	for _, g := range x.groups {
		if all = all && (g.taken || g.hasReplayed()); g.failed {
			failed++
		}
	}
	for _, g := range x.groups {
		lost := g.failed && failed < len(x.groups) && g.keys[0].ops[0].hold.private
		if !all && (g.taken || lost) {
			opened = append(opened, g)
		}
	}
	return opened
}

// hasReplayed reports whether the holds of the call had been opened before.
func (g *group) hasReplayed() bool {
	return !g.failed && slices.ContainsFunc(g.keys, func(k *keyOps) bool {
		return slices.ContainsFunc(k.ops, func(o *op) bool { return o.hold.status == holdReplayed })
	})
}

// cancel cancels the holds of calls, even if the caller's context has ended.
func (x *holdTransaction) cancel(ctx context.Context, opened []*group) {
	for _, c := range x.correct(ctx, opened, 0) {
		switch k := c.group.find(c.corrected.redisKey); {
		case c.group.failed:
		case !k.answered:
			c.corrected.decision = c.corrected.rule.step.Answer(k.before, c.group.decidedAt, 0, 0, true)
		case c.err == nil:
			c.corrected.decision = c.decision
		}
	}
}
