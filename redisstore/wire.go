package redisstore

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// What follows is the other side of the script: how a group of operations is written and its reply read.

const (
	live        = -1 // stands for the server's own clock
	valueBytes  = 25
	stateFormat = 1
	answerBytes = 26
	maxUnits    = 1<<53 - 1 // Lua holds whole numbers exactly to here, and no limit reaches it
	undo        = algo.Cancel + 1
)

type mode byte

const (
	each mode = iota
	takeAll
	peekAll
)

// op is one verb on one key. Its last fields are the answer.
type op struct {
	rule    *rule
	key     string // the caller's
	name    string // in Redis
	request algo.Request
	taken   taken // for undo
	queued

	decision   headgate.Decision
	after      algo.State // the state after it, unless it is a log
	at         moment
	remembered bool // Redis was not asked
	err        error
}

// taken is a take that is to be undone: what it found, what it left, and when; of a log the instant under which it entered its units.
type taken struct {
	was, after algo.State
	at         int64
}

// group is what one script call decides: operations at one instant, on keys that may stand in one call.
type group struct {
	now   int64 // µs, or live
	mode  mode
	rules []*rule
	keys  []*keyOps // plain states first, once it was written
	index map[string]*keyOps
	room  []keyOps // for new keys
	spent bool     // all or nothing: all
	t     int64    // the instant that decided
}

// keyOps are the operations on one key, in order.
type keyOps struct {
	name   string
	log    bool
	ops    []*op
	before algo.State // as the script found it, unless it is a log
	after  algo.State
	first  [1]*op
}

func (g *group) add(o *op) {
	if k := g.find(o.name); k != nil {
		k.ops = append(k.ops, o)
		return
	}
	if len(g.room) == 0 {
		g.room = make([]keyOps, 1+len(g.keys))
	}
	k := &g.room[0]
	g.room = g.room[1:]
	k.name, k.log, k.first[0] = o.name, o.rule.log != nil, o
	k.ops = k.first[:]
	g.keys = append(g.keys, k)
	if len(g.keys) > fewKeys {
		g.note(k)
	}
}

// fewKeys are so few that they are found without an index.
const fewKeys = 6

func (g *group) note(k *keyOps) {
	if len(g.index) == 0 {
		if g.index == nil {
			g.index = make(map[string]*keyOps, maxKeys)
		}
		for _, earlier := range g.keys {
			g.index[earlier.name] = earlier
		}
	}
	g.index[k.name] = k
}

// find is a key of the group, or nil.
func (g *group) find(name string) *keyOps {
	if len(g.keys) > fewKeys {
		return g.index[name]
	}
	for _, k := range g.keys {
		if k.name == name {
			return k
		}
	}
	return nil
}

// call writes the group as a call of the script.
func (g *group) call() Call {
	names, head, runs := make([]string, 0, len(g.keys)), g.head(), make([]byte, 0, 18*len(g.keys))
	for _, k := range g.keys {
		names = append(names, k.name)
	}
	for i := range g.keys {
		runs = g.appendRuns(runs, i)
	}
	return Call{Script: decideScript.text, SHA: decideScript.sha, Keys: names, Args: []string{string(head), string(runs)}}
}

// head puts plain keys first and numbers the rules.
func (g *group) head() []byte {
	plain := g.plainFirst()
	for _, k := range g.keys {
		for _, o := range k.ops {
			g.numberOf(o.rule)
		}
	}
	b := appendDouble(make([]byte, 0, 12+80*len(g.rules)), g.now)
	b = append(b, byte(g.mode))
	b = binary.LittleEndian.AppendUint16(b, uint16(plain))
	b = append(b, byte(len(g.rules)))
	for _, r := range g.rules {
		b = append(b, r.head...)
	}
	return b
}

func (g *group) plainFirst() (plain int) {
	var logs []*keyOps
	for _, k := range g.keys {
		if k.log {
			logs = append(logs, k)
		} else {
			g.keys[plain] = k
			plain++
		}
	}
	copy(g.keys[plain:], logs)
	return plain
}

func (g *group) numberOf(r *rule) byte {
	for i := range g.rules {
		if g.rules[i] == r {
			return byte(i + 1)
		}
	}
	g.rules = append(g.rules, r)
	return byte(len(g.rules))
}

// appendRuns writes what is done on one key; equal takes behind one another are one run.
func (g *group) appendRuns(b []byte, key int) []byte {
	ops := g.keys[key].ops
	for i := 0; i < len(ops); {
		o, n := ops[i], 1
		if g.mode == each {
			n = runLength(ops[i:])
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(key+1))
		b = append(b, g.numberOf(o.rule), byte(o.request.Verb))
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
		b = appendDouble(b, o.request.N)
		b = o.appendRest(b)
		i += n
	}
	return b
}

// runLength is how many operations in front are the same take.
func runLength(ops []*op) int {
	first, n := ops[0], 1
	if first.request.Verb != algo.Take {
		return 1
	}
	for n < len(ops) && ops[n].rule == first.rule && ops[n].request.Verb == algo.Take && ops[n].request.N == first.request.N &&
		first.request.N < maxUnits/int64(n+1) {
		n++
	}
	return n
}

func (o *op) appendRest(b []byte) []byte {
	switch {
	case o.request.Verb == algo.Reserve:
		return appendDouble(b, o.request.MaxDelay)
	case o.request.Verb == algo.Cancel:
		return appendState(b, o.request.Mark)
	case o.request.Verb == undo && o.rule.log != nil:
		return appendDouble(b, o.taken.at)
	case o.request.Verb == undo:
		return appendDouble(appendState(appendState(b, o.taken.was), o.taken.after), o.taken.at)
	}
	return b
}

func appendDouble(b []byte, n int64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

func appendState(b []byte, s algo.State) []byte {
	b = appendDouble(append(b, stateFormat), s.A)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.B))
	return binary.LittleEndian.AppendUint32(b, uint32(s.C))
}

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

// answer reads a decision about a log.
func (r *reader) answer(rule *rule) headgate.Decision {
	flags := r.next(2)
	d := headgate.Decision{Allowed: flags[0] == 1, Never: flags[1] == 1, Limit: rule.limit, Remaining: r.double()}
	d.RetryAfter, d.ResetAfter = headgate.Micros(r.double()), headgate.Micros(r.double())
	return rule.named(d)
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
			ops[0].decision = r.answer(ops[0].rule)
		}
		ops = ops[n:]
	}
}

func readTakes(run []*op, r *reader) {
	fit := min(len(run), int(r.double()))
	var admitted, denied headgate.Decision
	if fit > 0 {
		admitted = r.answer(run[0].rule)
	}
	if fit < len(run) {
		denied = r.answer(run[0].rule)
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
				o.decision = r.answer(o.rule)
				fit = fit && o.decision.Allowed
			}
		}
	}
	plain := g.decide(g.mode == peekAll || !fit)
	g.spent = plain && fit && g.mode == takeAll
}

// decide answers for the plain keys, and reports whether all were admitted.
func (g *group) decide(peek bool) bool {
	var charges []algo.Charge
	var ops []*op
	targets := make([]algo.Target, len(g.keys))
	for i, k := range g.keys {
		if k.log {
			continue
		}
		targets[i].State = k.before
		for _, o := range k.ops {
			charges = append(charges, algo.Charge{Step: o.rule.step, Target: &targets[i], N: o.request.N})
			ops = append(ops, o)
		}
	}
	decisions := make([]headgate.Decision, len(ops))
	all := algo.TakeAll(charges, g.t, peek, decisions)
	for i, o := range ops {
		o.decision = o.rule.named(decisions[i])
	}
	for i, k := range g.keys {
		k.after = targets[i].State
	}
	return all
}

// wait is a time as whole µs, at most what any limit needs.
func wait(d time.Duration) int64 { return min(max(d, 0), headgate.MaxFillTime).Microseconds() }
