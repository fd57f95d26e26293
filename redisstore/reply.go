package redisstore

import (
	"encoding/binary"
	"math"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

const valueBytes = 25 // of a state as it lies in Redis

// reader reads a reply from its front.
type reader struct {
	text  string
	short bool // there was less than asked for
}

func (r *reader) next(n int) string {
	if len(r.text) < n {
		r.short = true
		return string(make([]byte, n))
	}
	part := r.text[:n]
	r.text = r.text[n:]
	return part
}

func (r *reader) double() int64 {
	return int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(r.next(8)))))
}

// state reads a state as it was; ok is false if another program made it.
func (r *reader) state() (s algo.State, ok bool) {
	text := []byte(r.next(valueBytes))
	if text[0] > stateFormat {
		return s, false
	}
	s.A = int64(math.Float64frombits(binary.LittleEndian.Uint64(text[1:])))
	s.B = int64(binary.LittleEndian.Uint32(text[9:]))
	s.C = int64(binary.LittleEndian.Uint32(text[13:]))
	return s, true
}

// answer reads a decision about a log; ok is false if another program made it.
func (r *reader) answer(rule *rule) (d headgate.Decision, ok bool) {
	flags := r.next(2)
	d = headgate.Decision{Allowed: flags[0] == 1, Never: flags[1] == 1, Limit: rule.limit, Remaining: r.double()}
	d.RetryAfter, d.ResetAfter = micros.Duration(r.double()), micros.Duration(r.double())
	return rule.named(d), flags[0] <= 1
}

// read gives every operation of the group its answer.
func (g *group) read(text string) {
	r := reader{text: text}
	g.t = r.double()
	if g.mode != each {
		g.readAll(&r)
	} else {
		for _, k := range g.keys {
			if k.log {
				k.readLog(&r)
			} else {
				k.read(&r, g.t)
			}
		}
	}
	if r.short || r.text != "" {
		g.fail(errReply(len(text)))
	}
}

// fail gives every operation the same error.
func (g *group) fail(err error) {
	for _, k := range g.keys {
		for _, o := range k.ops {
			o.err = err
		}
	}
}

// stamp tells every operation when it was decided.
func (g *group) stamp(sent, received int64) {
	for _, k := range g.keys {
		for _, o := range k.ops {
			o.at = moment{t: g.t, sent: sent, received: received, live: g.now == live}
		}
	}
}

// read takes the steps that the script took, from the state that it found.
func (k *keyOps) read(r *reader, t int64) {
	s, ok := r.state()
	for _, o := range k.ops {
		if !ok {
			o.err = errForeign()
			continue
		}
		s = o.step(s, t)
	}
}

// step is what rest.lua calls run.
func (o *op) step(s algo.State, t int64) algo.State {
	request := o.request
	request.T = t
	if request.Verb == undo {
		o.after = o.rule.step.Undo(s, o.taken.was, o.taken.after, o.taken.at, t, request.N)
		return o.after
	}
	out := algo.Apply(o.rule.step, s, &request)
	o.decision = o.rule.named(algo.AnswerTo(o.rule.step, &request, &out))
	if o.after = s; request.Verb != algo.Peek {
		o.after = out.Next
	}
	return o.after
}

// readLog reads what the script answered: for a run of takes how many were admitted, then the last of those and the first of the
// others, where there are such.
func (k *keyOps) readLog(r *reader) {
	for ops := k.ops; len(ops) > 0; {
		n := runLength(ops)
		if ops[0].request.Verb == algo.Take {
			readTakes(ops[:n], r)
		} else {
			ops[0].readAnswer(r)
		}
		ops = ops[n:]
	}
}

// readAnswer reads the answer to one operation on a log.
func (o *op) readAnswer(r *reader) {
	var ok bool
	if o.decision, ok = r.answer(o.rule); !ok {
		o.err = errForeign()
	}
}

func readTakes(run []*op, r *reader) {
	fit := min(len(run), int(r.double()))
	if fit < 0 {
		for _, o := range run {
			o.err = errForeign()
		}
		return
	}
	var admitted, denied headgate.Decision
	if fit > 0 {
		admitted, _ = r.answer(run[0].rule)
	}
	if fit < len(run) {
		denied, _ = r.answer(run[0].rule)
	}
	for i, o := range run {
		o.decision = denied
		if i < fit {
			o.decision = admitted
			o.decision.Remaining += int64(fit-1-i) * o.request.N // what those behind it had yet to take
		}
	}
}

// readAll decides anew what the script decided all or nothing. For logs it has answered itself.
func (g *group) readAll(r *reader) {
	fit := true
	for _, k := range g.keys {
		if !k.log {
			k.before, _ = r.state()
		}
	}
	for _, k := range g.keys {
		if k.log {
			for _, o := range k.ops {
				o.readAnswer(r)
				fit = fit && o.decision.Allowed
			}
		}
	}
	plain := g.decide(g.mode == peekAll || !fit)
	g.spent = plain && fit && g.mode == takeAll
}

// decide answers for the plain keys, and reports whether all were admitted.
func (g *group) decide(peek bool) bool {
	var charges []algo.Debit
	var ops []*op
	targets := make([]algo.Target, len(g.keys))
	for i, k := range g.keys {
		if k.log {
			continue
		}
		targets[i].State = k.before
		for _, o := range k.ops {
			charges = append(charges, algo.Debit{Step: o.rule.step, Target: &targets[i], N: o.request.N})
			ops = append(ops, o)
		}
	}
	decisions := make([]headgate.Decision, len(ops))
	all := algo.DebitAll(charges, g.t, peek, decisions)
	for i, o := range ops {
		o.decision = o.rule.named(decisions[i])
	}
	for i, k := range g.keys {
		k.after = targets[i].State
	}
	return all
}
