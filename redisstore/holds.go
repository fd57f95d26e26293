package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// holdOp has the arguments and the result that only operations on holds and leases have.
type holdOp struct {
	id       headgate.HoldID
	ttl      int64 // in µs
	cost     int64 // cost of the request, which the policy may cap
	settings headgate.HoldSettings
	lease    *leaseOp // arguments and result of a lease; nil for another verb
	private  bool     // whether only this process knows the id
	undone   bool     // whether a commit corrects a hold that the same request has opened
	several  bool     // whether several ops of the call are this operation
	asks     bool     // whether the operation opens no hold: it decides one of several ops
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
	holdOpened // a hold under a rule with a state was opened; the reply contains nothing else
)

// holdVerbs maps the verbs of package headgate to the verbs of the script.
var holdVerbs = [...]algo.Verb{
	headgate.OpenHold: verbOpen, headgate.CommitHold: verbCommit, headgate.ExtendHold: verbExtend,
	headgate.Debit: verbDebit, headgate.TakeUpTo: verbTakeUpTo,
}

// hasRecord reports whether the operation uses the key of ended holds. A private hold
// that is opened has a new id, so it is not among them. A hold that is undone is not
// recorded.
func (h *holdOp) hasRecord(o *op) bool {
	return o.request.Verb == verbOpen && !h.private || o.request.Verb == verbCommit && !h.undone
}

// recordKey returns the key of the holds of a key that have ended. It is in the same hash
// slot. No key of a state has this form: its last part contains at most one tilde.
func recordKey(redisKey string) string { return redisKey + "~~" }

// appendHoldArgs appends the arguments of a verb of holds to a run.
func (g *group) appendHoldArgs(b []byte, k *keyOps, o *op) []byte {
	h := o.hold
	if h.lease != nil {
		return h.appendLeaseArgs(b)
	}
	if o.request.Verb >= verbDebit && g.mode != takeUpToAll {
		return b
	}
	name := algo.NameOf(h.id)
	if g.mode == takeUpToAll {
		return append(appendDouble(append(b, name[:]...), h.ttl), h.flags())
	}
	b = append(b, name[:]...)
	if o.request.Verb == verbExtend {
		return appendDouble(b, h.ttl)
	}
	if o.request.Verb == verbOpen {
		b = append(b, h.id[len(name):]...)
		b = appendDouble(b, h.ttl)
	}
	b = appendDouble(append(b, h.flags()), int64(h.settings.MaxOpenOrDefault()))
	if !h.hasRecord(o) {
		return binary.LittleEndian.AppendUint16(b, 0)
	}
	return binary.LittleEndian.AppendUint16(b, uint16(k.record))
}

// flags returns the settings as in holds.lua.
func (h *holdOp) flags() (flags byte) {
	if h.settings.OnExpiry == headgate.ReleaseExpired {
		flags |= 1
	}
	if h.settings.ExcessPolicy == headgate.ClipExcess {
		flags |= 2
	}
	if h.undone {
		flags |= 4
	}
	if h.asks {
		flags |= 16
	}
	return flags
}

// readHold reads the result of a verb of holds. It returns the state after the operation,
// if the rule has one. s is the state before it, and leased the units on lease.
func (o *op) readHold(r *reader, s algo.State, t, leased int64) algo.State {
	status := r.next(1)[0]
	if status == holdOpened {
		return o.opened(r, s, t, leased)
	}
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
	o.after, _ = r.state()
	if status == holdDenied {
		o.decision = o.rule.withDeniedBy(o.rule.step.Answer(o.after, t, o.request.N, 0, false))
	} else {
		o.decision = o.rule.step.Answer(o.after, t, 0, 0, true)
	}
	return o.after
}

// opened repeats the step of the script that has opened a hold.
func (o *op) opened(r *reader, s algo.State, t, leased int64) algo.State {
	if o.request.Verb != verbOpen || o.rule.step == nil || o.rule.onlyHolds {
		r.invalid = true
		return s
	}
	o.hold.status, o.hold.deadline = holdOK, headgate.Instant(t+o.hold.ttl)
	s, _ = o.rule.step.Take(s, t, o.request.N)
	o.after = o.rule.raise(s, t, leased)
	o.decision = o.rule.step.Answer(o.after, t, 0, 0, true)
	return o.after
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
		s := k.before
		for _, o := range k.ops {
			s = o.readHold(r, s, g.decidedAt, k.leased)
			g.taken = g.taken && (o.hold.asks || o.hold.status == holdOK)
		}
	}
}

// err returns the error of the operation.
func (h *holdOp) err() error {
	switch h.status {
	case holdUnknown:
		return headgate.ErrUnknownHold
	case holdConflict:
		return fmt.Errorf("redisstore: %w: it was opened with other keys or costs;"+
			" use another id, or repeat the first request", headgate.ErrHoldConflict)
	case holdTooMany:
		return fmt.Errorf("redisstore: %w: the key has %d; commit or cancel some, or raise the maximum (max_open)", headgate.ErrTooManyHolds, h.settings.MaxOpenOrDefault())
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
		cost = r.holds.ChargedUnits(cost, r.limit)
	}
	o := r.newOp(now, in.Key, holdVerbs[verb], cost)
	if o.hold = o.unused; o.hold == nil {
		o.hold = new(holdOp)
	}
	*o.hold = holdOp{id: in.ID, private: in.Private, ttl: ttl.Microseconds(), cost: min(in.Cost, maxUnits), settings: r.holds}
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
