package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// holdOp is the part of an operation that only the verbs of holds have, with its result.
type holdOp struct {
	id       headgate.HoldID
	ttl      int64 // in µs
	settings headgate.HoldSettings
	private  bool // whether only this process knows the id
	undone   bool // whether a commit undoes a hold that the same call has opened
	status   byte
	granted  int64            // units that were taken
	deadline headgate.Instant // deadline of a hold that was opened, now or before, or extended
}

// The statuses in the reply of the script.
const (
	holdOK byte = iota
	holdReplayed
	holdUnknown
	holdConflict
	holdTooMany
	holdDenied
)

// holdVerbs maps the verbs of package headgate to the verbs of the script.
var holdVerbs = [...]algo.Verb{
	headgate.OpenHold: verbOpen, headgate.CommitHold: verbCommit, headgate.ExtendHold: verbExtend,
	headgate.Debit: verbDebit, headgate.TakeUpTo: verbTakeUpTo,
}

// hasRecord reports whether the operation uses the key of an ended hold. A private hold
// that is opened has a new id, so it has no such key.
func (h *holdOp) hasRecord(o *op) bool {
	return o.request.Verb == verbOpen && !h.private || o.request.Verb == verbCommit
}

// recordKey returns the key of a hold that has ended, in the hash slot of the key that it
// was opened on. No key of a state has this form: its last part contains at most one
// tilde.
func (h *holdOp) recordKey(redisKey string) string {
	name := algo.NameOf(h.id)
	return redisKey + "~~" + base64.RawURLEncoding.EncodeToString(name[:])
}

// appendHoldArgs appends the arguments of a verb of holds to a run.
func (g *group) appendHoldArgs(b []byte, o *op) []byte {
	h := o.hold
	if o.request.Verb >= verbDebit {
		return b
	}
	name := algo.NameOf(h.id)
	b = append(b, name[:]...)
	if o.request.Verb == verbExtend {
		return appendDouble(b, h.ttl)
	}
	if o.request.Verb == verbOpen {
		b = append(b, h.id[len(name):]...)
		b = append(appendDouble(b, h.ttl), h.flags())
		b = appendDouble(b, int64(h.settings.MaxOpenOrDefault()))
	} else {
		b = append(b, h.flags())
	}
	if !h.hasRecord(o) {
		return binary.LittleEndian.AppendUint16(b, 0)
	}
	g.records++
	return binary.LittleEndian.AppendUint16(b, uint16(g.records))
}

// flags returns the settings as in holds.lua.
func (h *holdOp) flags() (flags byte) {
	if h.settings.OnExpiry == headgate.ReleaseExpired {
		flags |= 1
	}
	if h.settings.Over == headgate.ClipExcess {
		flags |= 2
	}
	if h.undone {
		flags |= 4
	}
	return flags
}

// readHold reads the result of a verb of holds. It returns the state after the operation,
// if the rule has one.
func (o *op) readHold(r *reader, t int64) algo.State {
	status := r.next(1)[0]
	o.hold.status = status
	if value := r.double(0); o.request.Verb >= verbDebit {
		o.hold.granted = value
	} else {
		o.hold.deadline = headgate.Instant(value)
	}
	r.invalid = r.invalid || status > holdDenied
	if o.rule.log != nil || o.rule.onlyHolds {
		o.readAnswer(r)
		return algo.State{}
	}
	s, _ := r.state()
	o.after = s
	if status == holdDenied {
		o.decision = o.rule.withDeniedBy(o.rule.step.Answer(s, t, o.request.N, 0, false))
	} else {
		o.decision = o.rule.step.Answer(s, t, 0, 0, true)
	}
	return s
}

// readOpened reads the results of opening a hold on several keys.
func (g *group) readOpened(r *reader) {
	for _, k := range g.keys {
		if !k.log {
			k.readBefore(r)
		}
	}
	g.taken = true
	for _, k := range g.keys {
		for _, o := range k.ops {
			o.readHold(r, g.decidedAt)
			g.taken = g.taken && o.hold.status == holdOK
		}
	}
}

// err returns the error of the operation.
func (h *holdOp) err() error {
	switch h.status {
	case holdUnknown:
		return headgate.ErrUnknownHold
	case holdConflict:
		return fmt.Errorf("redisstore: %w: it was opened with other keys or costs", headgate.ErrHoldConflict)
	case holdTooMany:
		return fmt.Errorf("redisstore: %w: the key has %d; commit or cancel some, or raise the maximum", headgate.ErrTooManyHolds, h.settings.MaxOpenOrDefault())
	}
	return nil
}

// newHoldOp returns the operation for one op of an ApplyHolds call.
func (r *rule) newHoldOp(now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, in *headgate.HoldOp) (*op, error) {
	if verb <= headgate.ExtendHold && !r.canHold {
		return nil, errUnsupported("hold", "holds require "+algo.NamesWhere(headgate.Algorithm.CanHold))
	}
	if r.onlyHolds && verb > headgate.ExtendHold {
		return nil, errHoldRequired("apply")
	}
	cost := in.Cost
	if verb == headgate.OpenHold {
		cost = r.holds.Amount(cost, r.limit)
	}
	o := r.newOp(now, in.Key, holdVerbs[verb], cost)
	o.hold = &holdOp{id: in.ID, private: in.Private, ttl: ttl.Microseconds(), settings: r.holds}
	return o, nil
}

// ApplyHold executes verb on one key; see [headgate.HoldBound]. It is one round trip, and
// is batched with other operations.
func (r *rule) ApplyHold(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, in headgate.HoldOp,
) (headgate.HoldResult, headgate.Instant, error) {
	var result headgate.HoldResult
	if err := r.store.checkReady(ctx); err != nil {
		return result, 0, err
	}
	o, err := r.newHoldOp(now, verb, ttl, &in)
	if err != nil {
		return result, 0, err
	}
	setSums(verb, o)
	r.shared.markRefunded()
	if err := r.store.do(ctx, o); err != nil {
		return result, 0, err
	}
	result = o.holdResult()
	at := headgate.Instant(o.timestamp.t)
	err = o.hold.err()
	o.recycle()
	return result, at, err
}

func (o *op) holdResult() headgate.HoldResult {
	return headgate.HoldResult{Decision: o.decision, Replayed: o.hold.status == holdReplayed, Granted: o.hold.granted, Deadline: o.hold.deadline, Err: o.hold.err()}
}

// ApplyHolds executes verb on every op; see [headgate.HoldStore]. It is one atomic call
// if all keys may be in one call, as in [Store.ApplyAll]. Otherwise it sends one call for
// each hash slot. If one of them does not open its holds, ApplyHolds cancels the holds
// that the others opened, which has the effect that they were never opened.
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
		if same := x.find(o); same != nil && x.mode != upToAll {
			same.request.N = min(same.request.N+o.request.N, maxUnits)
			x.opOf = append(x.opOf, same)
			continue
		}
		x.ops, x.opOf = append(x.ops, o), append(x.opOf, o)
		x.add(o)
	}
	setSums(x.verb, x.ops...)
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
	if x.verb == headgate.OpenHold && x.isPartlyOpen() {
		x.cancel(ctx)
	}
	return err
}

// takeUpTo takes units in several calls, one after another, and at most as many as in the
// call before. Then it refunds what the earlier calls have taken in excess.
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
			return err
		}
		granted = g.keys[0].ops[0].hold.granted
	}
	x.refundAbove(ctx, granted)
	return nil
}

// refundAbove refunds the units that operations have taken above granted.
func (x *holdTransaction) refundAbove(ctx context.Context, granted int64) {
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

// isPartlyOpen reports whether some calls have opened their holds and some have not. If a
// hold had been opened before, all of them may be needed.
func (x *holdTransaction) isPartlyOpen() bool {
	opened := 0
	for _, g := range x.groups {
		if g.taken {
			opened++
		}
	}
	replayed := slices.ContainsFunc(x.ops, func(o *op) bool { return o.hold.status == holdReplayed })
	return !replayed && opened > 0 && opened < len(x.groups)
}

// cancel cancels the holds that were opened, even if the caller's context has ended.
func (x *holdTransaction) cancel(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer stop()
	var undos []*group
	var undone [][2]*op // operations whose decisions the script makes, and their undos
	for _, g := range x.groups {
		if !g.taken {
			continue
		}
		back := &group{now: g.now}
		for _, k := range g.keys {
			for _, o := range k.ops {
				undo := &op{rule: o.rule, key: o.key, redisKey: o.redisKey, hold: &holdOp{id: o.hold.id, settings: o.hold.settings, undone: true}}
				undo.request = algo.Request{Verb: verbCommit, T: o.request.T}
				back.add(undo)
				if k.answered {
					undone = append(undone, [2]*op{o, undo})
					continue
				}
				o.decision = o.rule.step.Answer(k.before, g.decidedAt, 0, 0, true)
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
