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
// makes the calls one after another, and refunds what it has taken if one of them fails.
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
		x.mode = upToAll
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
		}
	}
	return headgate.Instant(x.ops[0].timestamp.t), err
}

// holdTransaction is the state of one ApplyHolds call.
type holdTransaction struct {
	callGroups
	verb headgate.HoldVerb
	ops  []*op // one for each key and id
	opOf []*op // the operation of each op of the call
}

// read converts the ops to operations and groups them into calls. Ops with the same key
// and id are one operation with the sum of their costs, except those of TakeUpTo.
func (x *holdTransaction) read(now headgate.Instant, ttl time.Duration, ops []headgate.HoldOp) error {
	checked := make([]*op, 0, len(ops)) // one for each op of the call
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
		if same := x.find(o); same != nil && x.mode != upToAll {
			same.request.N = min(same.request.N+o.request.N, maxUnits)
			x.opOf = append(x.opOf, same)
			continue
		}
		x.ops, x.opOf = append(x.ops, o), append(x.opOf, o)
		x.add(o)
	}
	setSums(x.verb, x.ops...)
	err := algo.CheckLimits(x.verb, len(checked), func(i int) (string, headgate.Limit) { return checked[i].redisKey, checked[i].rule.of })
	if err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// setSums adds the checksums of the requests to the ids of holds that are opened. No
// other request has the id of a private hold, so that needs no checksum.
func setSums(verb headgate.HoldVerb, ops ...*op) {
	if verb != headgate.OpenHold || ops[0].hold.private {
		return
	}
	sums := algo.HoldSums{}
	for _, o := range ops {
		key := fnv.New64a()
		_, _ = key.Write([]byte(o.redisKey))
		sums.Add(o.hold.id, key.Sum64(), o.request.N)
	}
	for _, o := range ops {
		o.hold.id = sums.ID(o.hold.id)
	}
}

func (x *holdTransaction) find(o *op) *op {
	for _, other := range x.ops {
		if other.redisKey == o.redisKey && other.hold.id == o.hold.id {
			return other
		}
	}
	return nil
}

func (x *holdTransaction) run(ctx context.Context) error {
	if x.mode == upToAll && len(x.groups) > 1 {
		return x.takeUpTo(ctx)
	}
	x.store.send(ctx, x.groups)
	err := x.firstError()
	if x.verb == headgate.OpenHold {
		x.cancel(ctx, x.partlyOpened())
	}
	return err
}

// takeUpTo takes units in several calls, one after another, and at most as many as in the
// call before. Then it refunds what the earlier calls have taken in excess. If a call
// fails, it refunds everything that the calls before it have taken.
func (x *holdTransaction) takeUpTo(ctx context.Context) error {
	granted := int64(maxUnits)
	for _, g := range x.groups {
		for _, k := range g.keys {
			for _, o := range k.ops {
				o.request.N = min(o.request.N, granted)
			}
		}
		x.store.send(ctx, []*group{g})
		if err := x.firstError(); err != nil {
			x.refundAbove(ctx, 0)
			return err
		}
		granted = g.keys[0].ops[0].hold.granted
	}
	x.refundAbove(ctx, granted)
	return nil
}

// refundAbove refunds the units that operations have taken above granted, even if the
// caller's context has ended.
func (x *holdTransaction) refundAbove(ctx context.Context, granted int64) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer stop()
	refunds := callGroups{store: x.store}
	var refunded [][2]*op
	for _, o := range x.ops {
		if excess := o.hold.granted - granted; excess > 0 {
			refund := &op{rule: o.rule, key: o.key, redisKey: o.redisKey}
			refund.request = algo.Request{Verb: algo.Refund, T: o.request.T, N: excess}
			refunds.add(refund)
			refunded = append(refunded, [2]*op{o, refund})
		}
		o.hold.granted = granted
	}
	x.store.send(ctx, refunds.groups)
	for _, pair := range refunded {
		if pair[1].err == nil {
			pair[0].decision = pair[1].decision
		}
	}
}

// firstError returns the first error of a call. For holds that are opened, it includes
// the errors of single keys.
func (x *holdTransaction) firstError() error {
	for _, o := range x.ops {
		err := o.err
		if err == nil && x.verb == headgate.OpenHold {
			err = o.hold.err()
		}
		if err != nil {
			return err
		}
	}
	return nil
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
	if len(opened) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer stop()
	var undos []*group
	var undone [][2]*op // operations whose decisions the script makes, and their undos
	for _, g := range opened {
		back := &group{now: g.now}
		for _, k := range g.keys {
			for _, o := range k.ops {
				undo := &op{rule: o.rule, key: o.key, redisKey: o.redisKey, hold: &holdOp{id: o.hold.id, settings: o.hold.settings, undone: true}}
				undo.request = algo.Request{Verb: verbCommit, T: o.request.T}
				back.add(undo)
				switch {
				case g.failed:
				case k.answered:
					undone = append(undone, [2]*op{o, undo})
				default:
					o.decision = o.rule.step.Answer(k.before, g.decidedAt, 0, 0, true)
				}
			}
		}
		undos = append(undos, back)
	}
	x.store.send(ctx, undos)
	for _, pair := range undone {
		if pair[1].err == nil {
			pair[0].decision = pair[1].decision
		}
	}
}
