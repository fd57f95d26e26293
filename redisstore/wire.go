package redisstore

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// This file encodes a group of operations for the script; reply.go decodes the reply of
// the script.

const (
	serverClock = -1 // used as an instant; selects the server's clock
	stateFormat = 1
	heldFormat  = 4         // the format of the state of a key with open holds
	maxUnits    = 1<<53 - 1 // integers up to this one are exact in Lua; no limit is larger
	maxCost     = 1 << 53   // a cost above every limit, also exact in Lua; higher costs are sent as this one
)

// The verbs of operations that are not requests of package algo, as in prelude.lua.
const (
	verbUndo = algo.Cancel + 1 + iota
	verbOpen
	verbCommit
	verbExtend
	verbDebit
	verbTakeUpTo
	verbPeekSlots
	verbLease
)

// mode is how the operations of a group affect each other.
type mode byte

const (
	independent mode = iota // each operation is decided independently
	takeAll                 // all operations are taken, or none
	peekAll                 // report what takeAll would decide
	openAll                 // open a hold with each operation, or none
	takeUpToAll             // take the same number of units with each operation
)

// op is one operation on one key, and its result.
type op struct {
	rule     *rule
	key      string // key that the caller passed
	redisKey string // key in Redis
	request  algo.Request
	undoes   takeRecord // the take to undo, if the verb is verbUndo
	hold     *holdOp    // arguments and result, if the verb is verbOpen or later
	unused   *holdOp    // of an earlier operation, to be used again; may be nil
	queueEntry

	decision  headgate.Decision
	after     algo.State // state after the operation; not set for a log
	timestamp timestamp
	fromCache bool // whether the denial cache decided
	held      bool // whether the key has open holds, which may expire at any time
	err       error
}

// takeRecord describes a take: the states before and after the take, and its instant.
// For a log, at is the instant at which the log recorded the units.
type takeRecord struct {
	before, after algo.State
	at            int64
}

// group is the content of one script call: operations that have the same instant, on
// keys that may be in one call.
type group struct {
	now       int64 // instant in µs, or serverClock
	mode      mode
	rules     []*rule
	keys      []*keyOps // after the call of header, keys with plain states come first
	index     map[string]*keyOps
	room      []keyOps // unused elements for new keys
	taken     bool     // whether all operations were allowed; only in mode takeAll
	decidedAt int64    // instant of the decision in µs
	failed    bool     // whether there is no valid reply
	records   int      // number of keys with records of ended holds
}

// keyOps contains the operations on one key, in order.
type keyOps struct {
	redisKey string
	log      bool
	answered bool // whether the reply contains the decisions of an all-or-nothing call
	ops      []*op
	before   algo.State // state that the script found; not set for a log
	after    algo.State
	foreign  bool  // whether the value was written by another program
	held     bool  // whether the key has open holds
	leased   int64 // units of the key that are on lease
	record   int   // number of the key with its records in the call, or 0 if the call does not use it
	first    [1]*op
}

func (g *group) add(o *op) {
	if k := g.find(o.redisKey); k != nil {
		k.ops = append(k.ops, o)
		return
	}
	if len(g.room) == 0 {
		g.room = make([]keyOps, 1+len(g.keys))
	}
	k := &g.room[0]
	g.room = g.room[1:]
	k.redisKey, k.log, k.first[0] = o.redisKey, o.rule.log != nil, o
	k.answered = k.log || o.rule.onlyHolds
	k.ops = k.first[:]
	g.keys = append(g.keys, k)
	if len(g.keys) > maxUnindexed {
		g.addToIndex(k)
	}
}

// maxUnindexed is the number of keys up to which find searches linearly instead of
// using the index.
const maxUnindexed = 6

func (g *group) addToIndex(k *keyOps) {
	if len(g.index) == 0 {
		if g.index == nil {
			g.index = make(map[string]*keyOps, maxKeys)
		}
		for _, earlier := range g.keys {
			g.index[earlier.redisKey] = earlier
		}
	}
	g.index[k.redisKey] = k
}

// find returns the operations on a key of the group, or nil.
func (g *group) find(redisKey string) *keyOps {
	if len(g.keys) > maxUnindexed {
		return g.index[redisKey]
	}
	for _, k := range g.keys {
		if k.redisKey == redisKey {
			return k
		}
	}
	return nil
}

// call encodes the group as a script call.
func (g *group) call() Call {
	header, runs := g.header(), make([]byte, 0, 18*len(g.keys))
	g.numberRecords()
	redisKeys := make([]string, 0, len(g.keys)+g.records)
	for i, k := range g.keys {
		redisKeys, runs = append(redisKeys, k.redisKey), g.appendRuns(runs, i)
	}
	for _, k := range g.keys {
		if k.record > 0 {
			redisKeys = append(redisKeys, recordKey(k.redisKey))
		}
	}
	return Call{Script: decideScript.text, SHA: decideScript.sha, Keys: redisKeys, Args: []string{string(header), string(runs)}}
}

// numberRecords numbers the keys with the records that the operations use.
func (g *group) numberRecords() {
	g.records = 0
	for _, k := range g.keys {
		if k.hasRecord() {
			g.records++
			k.record = g.records
		}
	}
}

// hasHold reports whether an operation has a verb of holds.
func (k *keyOps) hasHold() bool {
	for _, o := range k.ops {
		if o.hold != nil {
			return true
		}
	}
	return false
}

// hasRecord reports whether an operation uses the key of ended holds.
func (k *keyOps) hasRecord() bool {
	for _, o := range k.ops {
		if o.hold != nil && o.hold.hasRecord(o) {
			return true
		}
	}
	return false
}

// header encodes the header of the call. It moves keys with plain states before keys
// with logs, and numbers the rules.
func (g *group) header() []byte {
	plain := g.sortPlainFirst()
	for _, k := range g.keys {
		for _, o := range k.ops {
			g.ruleNumber(o.rule)
		}
	}
	b := appendDouble(make([]byte, 0, 15+80*len(g.rules)), g.now)
	b = append(b, byte(g.mode))
	b = binary.LittleEndian.AppendUint16(b, uint16(plain))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(g.keys)-plain))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(g.rules)))
	for _, r := range g.rules {
		b = r.appendHeader(b, g.now)
	}
	return b
}

func (g *group) sortPlainFirst() (plain int) {
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

func (g *group) ruleNumber(r *rule) int {
	for i := range g.rules {
		if g.rules[i] == r {
			return i + 1
		}
	}
	g.rules = append(g.rules, r)
	return len(g.rules)
}

// appendRuns encodes the operations on one key as runs. Consecutive equal takes are one
// run.
func (g *group) appendRuns(b []byte, key int) []byte {
	ops := g.keys[key].ops
	for i := 0; i < len(ops); {
		o, n := ops[i], 1
		if g.mode == independent {
			n = runLength(ops[i:])
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(key+1))
		b = binary.LittleEndian.AppendUint16(b, uint16(g.ruleNumber(o.rule)))
		b = append(b, byte(o.request.Verb))
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
		b = appendDouble(b, o.request.N)
		if b = o.appendVerbArgs(b); o.hold != nil {
			b = g.appendHoldArgs(b, g.keys[key], o)
		}
		i += n
	}
	return b
}

// runLength returns the number of operations at the beginning of ops that are equal
// takes, and 1 if the first operation is not a take.
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

func (o *op) appendVerbArgs(b []byte) []byte {
	switch {
	case o.request.Verb == algo.Reserve:
		return appendDouble(b, o.request.MaxDelay)
	case o.request.Verb == algo.Cancel:
		return appendState(b, o.request.Token)
	case o.request.Verb == verbUndo && o.rule.log != nil:
		return appendDouble(b, o.undoes.at)
	case o.request.Verb == verbUndo:
		return appendDouble(appendState(appendState(b, o.undoes.before), o.undoes.after), o.undoes.at)
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

// delayMicros converts d to whole µs: at least 0, and at most headgate.MaxFillTime.
func delayMicros(d time.Duration) int64 { return min(max(d, 0), headgate.MaxFillTime).Microseconds() }
