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
	stateFormat = 1
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
	b = binary.LittleEndian.AppendUint16(b, uint16(len(g.rules)))
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

func (g *group) numberOf(r *rule) int {
	for i := range g.rules {
		if g.rules[i] == r {
			return i + 1
		}
	}
	g.rules = append(g.rules, r)
	return len(g.rules)
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
		b = binary.LittleEndian.AppendUint16(b, uint16(g.numberOf(o.rule)))
		b = append(b, byte(o.request.Verb))
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

// wait is a time as whole µs, at most what any limit needs.
func wait(d time.Duration) int64 { return min(max(d, 0), headgate.MaxFillTime).Microseconds() }
