package redisstore

import (
	"encoding/binary"
	"math"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

const valueBytes = 25 // number of bytes of a state in Redis

// reader decodes a reply from its beginning to its end. The server is not trusted.
type reader struct {
	text    string
	invalid bool // the reply is shorter than expected, or contains an impossible number
	held    bool // whether the last decision is about a log with open holds
}

func (r *reader) next(n int) string {
	if len(r.text) < n {
		r.invalid = true
		return string(make([]byte, n))
	}
	part := r.text[:n]
	r.text = r.text[n:]
	return part
}

// double reads a whole number from lowest to maxUnits.
func (r *reader) double(lowest int64) int64 {
	return r.whole([]byte(r.next(8)), lowest)
}

func (r *reader) whole(text []byte, lowest int64) int64 {
	f := math.Float64frombits(binary.LittleEndian.Uint64(text))
	if !(f >= float64(lowest) && f <= maxUnits) || f != math.Trunc(f) {
		r.invalid = true
		return 0
	}
	return int64(f)
}

// state reads a state. ok is false if the value was written by another program.
func (r *reader) state() (s algo.State, ok bool) {
	text := []byte(r.next(valueBytes))
	if text[0] > stateFormat && text[0] != heldFormat {
		return s, false
	}
	s.A = r.whole(text[1:], 0)
	s.B = int64(binary.LittleEndian.Uint32(text[9:]))
	s.C = int64(binary.LittleEndian.Uint32(text[13:]))
	return s, true
}

// answer reads a decision about a log. ok is false if the value was written by another
// program.
func (r *reader) answer(rule *rule) (d headgate.Decision, ok bool) {
	flags := r.next(2)
	if flags[0] > 1 {
		r.next(3 * 8)
		return d, false
	}
	r.held = flags[1]&2 != 0
	d = headgate.Decision{Allowed: flags[0] == 1, Never: flags[1]&1 != 0, Limit: rule.limit, Remaining: r.double(0)}
	d.RetryAfter, d.ResetAfter = micros.Duration(r.double(0)), micros.Duration(r.double(0))
	r.invalid = r.invalid || flags[1] > 3 || d.Remaining > d.Limit
	return rule.withDeniedBy(d), true
}

// read decodes the script's reply and stores the result of every operation of the
// group. After a reply that the script cannot have sent, all operations fail.
func (g *group) read(text string) {
	r := reader{text: text}
	g.decidedAt = r.double(0)
	if r.invalid || g.now != serverClock && g.decidedAt != g.now {
		g.fail(errReply(len(text)))
		return
	}
	switch g.mode {
	case independent:
		g.readEach(&r)
	case openAll, takeUpToAll:
		g.readOpened(&r)
	default:
		g.readAllOrNothing(&r)
	}
	if r.invalid || r.text != "" {
		g.fail(errReply(len(text)))
	}
}

// readEach stores the results of independent operations.
func (g *group) readEach(r *reader) {
	for _, k := range g.keys {
		if !k.log {
			k.readBefore(r)
		}
	}
	for _, k := range g.keys {
		if k.log {
			k.readLog(r)
		} else {
			k.read(r, g.decidedAt)
		}
	}
}

// fail stores the same error in every operation of the group.
func (g *group) fail(err error) {
	g.taken, g.failed = false, true
	for _, k := range g.keys {
		for _, o := range k.ops {
			o.err = err
		}
	}
}

// setTimestamp stores the time of the decision in every operation of the group.
func (g *group) setTimestamp(sent, received int64) {
	for _, k := range g.keys {
		for _, o := range k.ops {
			o.timestamp = timestamp{t: g.decidedAt, sent: sent, received: received, serverClock: g.now == serverClock}
		}
	}
}

// readBefore reads the state that the script found.
func (k *keyOps) readBefore(r *reader) {
	var own bool
	// The state of a key with open holds has another format, or a negative expiry: −1,
	// less the units on lease.
	if len(r.text) >= valueBytes && r.text[0] <= heldFormat {
		expiry := math.Float64frombits(binary.LittleEndian.Uint64([]byte(r.text[valueBytes-8 : valueBytes])))
		if k.held = expiry < 0 || r.text[0] == heldFormat; expiry < 0 {
			k.leased = int64(-1 - expiry)
		}
	}
	k.before, own = r.state()
	k.foreign = !own
	k.held = k.held || k.hasHold()
}

// read repeats the steps of the script for one key, beginning with the state that the
// script found.
func (k *keyOps) read(r *reader, t int64) {
	s := k.before
	for _, o := range k.ops {
		switch {
		case o.hold != nil && o.hold.lease != nil:
			s = o.readLease(r, t)
			k.leased = o.hold.lease.leased
		case o.hold != nil:
			s = o.readHold(r, s, t, k.leased)
		case !k.foreign:
			s = o.step(s, t, k.leased)
		}
		if o.held = k.held; k.foreign {
			o.err = errForeign()
		}
	}
}

// step executes an operation on the state s at t and stores the result. It is the Go
// version of run in slowpath.lua.
func (o *op) step(s algo.State, t, leased int64) algo.State {
	request := o.request
	request.T = t
	if request.Verb == verbUndo {
		o.after = o.rule.step.Undo(s, o.undoes.before, o.undoes.after, o.undoes.at, t, request.N)
		o.after = o.rule.raise(o.after, t, leased)
		return o.after
	}
	out := algo.Apply(o.rule.step, s, &request)
	out.Next = o.rule.raise(out.Next, t, leased)
	o.decision = o.rule.withDeniedBy(algo.AnswerTo(o.rule.step, &request, &out))
	if o.after = s; request.Verb != algo.Peek {
		o.after = out.Next
	}
	return o.after
}

// readLog reads the decisions of the script about a log. For consecutive equal takes,
// the reply contains the number of allowed takes, then the decision about the last
// allowed take (if any) and the decision about the first denied take (if any).
func (k *keyOps) readLog(r *reader) {
	for ops := k.ops; len(ops) > 0; {
		n := runLength(ops)
		switch {
		case ops[0].request.Verb == algo.Take:
			readTakes(ops[:n], r)
		case ops[0].hold != nil && ops[0].hold.lease != nil:
			ops[0].readLease(r, 0)
		case ops[0].hold != nil:
			ops[0].readHold(r, algo.State{}, 0, 0)
		default:
			ops[0].readAnswer(r)
		}
		ops = ops[n:]
	}
}

// readAnswer reads the decision for one operation on a log.
func (o *op) readAnswer(r *reader) {
	var ok bool
	if o.decision, ok = r.answer(o.rule); !ok {
		o.err = errForeign()
	}
	o.held = r.held
}

func readTakes(run []*op, r *reader) {
	fit := int(min(int64(len(run)), r.double(-1)))
	if fit < 0 {
		for _, o := range run {
			o.err = errForeign()
		}
		return
	}
	var allowed, denied headgate.Decision
	if fit > 0 {
		allowed, _ = r.answer(run[0].rule)
	}
	if fit < len(run) {
		denied, _ = r.answer(run[0].rule)
	}
	for i, o := range run {
		o.decision, o.held = denied, r.held
		if i < fit {
			o.decision = allowed
			o.decision.Remaining += int64(fit-1-i) * o.request.N // add the units that later takes spent
		}
	}
}

// readAllOrNothing stores the decisions of an all-or-nothing call. For keys with plain
// states it repeats the decision of the script. For logs, and for slots in a peek, it
// reads the decision of the script.
func (g *group) readAllOrNothing(r *reader) {
	fit := true
	for _, k := range g.keys {
		if !k.log {
			k.before, _ = r.state()
		}
	}
	for _, k := range g.keys {
		if k.answered {
			for _, o := range k.ops {
				o.readAnswer(r)
				fit = fit && o.decision.Allowed
			}
		}
	}
	plain := g.decide(g.mode == peekAll || !fit)
	g.taken = plain && fit && g.mode == takeAll
}

// decide stores the decisions about the keys with plain states and reports whether all
// were allowed. If peek is true, it does not spend their costs.
func (g *group) decide(peek bool) bool {
	var debits []algo.Debit
	var ops []*op
	targets := make([]algo.Target, len(g.keys))
	for i, k := range g.keys {
		if k.answered {
			continue
		}
		targets[i].State = k.before
		for _, o := range k.ops {
			debits = append(debits, algo.Debit{Step: o.rule.step, Target: &targets[i], N: o.request.N})
			ops = append(ops, o)
		}
	}
	decisions := make([]headgate.Decision, len(ops))
	all := algo.DebitAll(debits, g.decidedAt, peek, decisions)
	for i, o := range ops {
		o.decision = o.rule.withDeniedBy(decisions[i])
	}
	for i, k := range g.keys {
		k.after = targets[i].State
	}
	return all
}
