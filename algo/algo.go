// Package algo is the arithmetic of every limit, and nothing else: no clock, no I/O, no context, no lock.
//
// Each algorithm stands in one place, twice: x.go for stores that run Go, x.lua for stores that run Lua. Both are exact. All
// is the only list of them.
//
// # Terms
//
// t is an instant in whole µs since the epoch. A limit grants L units per period P (µs) and holds B. n is a cost in units. A
// unit of a continuous bucket takes T = P/L µs, kept as the fraction p/d in lowest terms: a floored P/L would admit too much.
// Waits are rounded up, remaining units down.
package algo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// maxExact is the largest whole number that Lua's doubles, and so every instant in a state, hold exactly.
const maxExact = 1<<53 - 1

// State is what a store keeps for a key: three whole numbers that only the algorithm understands. A is an instant of at most
// 53 bits, B and C have at most 30 bits each; none is negative. The zero value is a key that was never used.
type State struct{ A, B, C int64 }

// Stepper is one algorithm under one limit: pure functions of a state and an instant. Costs are at least 0. It is safe for
// concurrent use and allocates nothing.
type Stepper interface {
	// Take spends n units at t if they are there. It returns the state to keep: the same one if n is denied, unless the limit
	// was changed and the state must be carried over. n = 0 is always admitted and only carries over.
	Take(s State, t, n int64) (State, bool)

	// Answer describes s, the state after a decision at t on a request for asked units, of which spent were taken from s.
	Answer(s State, t, asked, spent int64, allowed bool) headgate.Decision

	// Refund gives n units back at t: at most what was spent.
	Refund(s State, t, n int64) State

	// Undo makes the state at t what it would be if n units had not been taken at t0: that take made after of was, and by now the
	// state is s. It gives back as much as is certain: everything if nobody else did anything, never more than would be there
	// without the take, and nothing where that can't be told, as when the clock went back. n = 0 is for a take of which only the
	// states are known. What others have meanwhile given back without having taken it since t0 (Refund, Reset), or decided under
	// another limit, Undo can't see.
	Undo(s, was, after State, t0, t, n int64) State

	// ResetAt is the first instant at which s is as if never used; what is not after the present is so already.
	ResetAt(s State) int64

	// Spacing is a lower bound of the µs that the limit needs to grant n more units to callers who had to wait.
	Spacing(n int64) int64

	// Terms are the limit's numbers as the Lua twin takes them.
	Params() []int64
}

// Booker is a Stepper that can promise units which are still to come.
type Reserver interface {
	Stepper

	// Reserve takes n units at t, also such as come within maxDelay µs, and says after how many µs they are there. If it does
	// not take them, delay is how long they would need, or 0 if they can never come.
	Reserve(s State, t, n, maxDelay int64) (after State, delay int64, booked bool)

	// Cancel gives back at t the n units of a reservation after which the state was mark. One that is due stays spent, and so
	// does one behind which something else happened: the instants of what was booked behind it are promised.
	Cancel(s, mark State, t, n int64) State
}

// Phased is a Stepper whose refills come at instants that its first use sets. A state that several keys share must not refill
// for one of them sooner than its own would.
type Rephaser interface {
	// Rephase makes s, which has just been spent from at t, refill no sooner than if it was first used at t.
	Rephase(s State, t int64) State
}

// LogStepper is the Stepper of an algorithm whose state is a list. Its methods change the log they are given; a caller holds it
// alone.
type LogStepper interface {
	// Take spends n units at t if they are there. Without room for one more entry it counts them with the newest, whose instant
	// then moves up to t: such units age out later than they should, never earlier.
	Take(log *Log, t, n int64, room bool) bool
	// Fits reports what Take would decide.
	Fits(log *Log, t, n int64) bool
	// Answer describes the log after a decision at t on a request for asked units.
	Answer(log *Log, t, asked int64, allowed bool) headgate.Decision
	// Refund gives n units back, the newest first.
	Refund(log *Log, t, n int64)
	// Undo gives back n units that a take entered under the instant at: that of the newest entry just after it. Units that have
	// since moved to another instant stay spent.
	Undo(log *Log, at, n int64)
	// ResetAt is that of a Stepper.
	ResetAt(log *Log) int64
	// Spacing is that of a Stepper.
	Spacing(n int64) int64
	// Terms are those of a Stepper.
	Params() []int64
}

// Algorithm is an entry of the list of algorithms. Exactly one of New and NewLog is set.
type Algorithm struct {
	Name    headgate.Algorithm
	Aliases []headgate.Algorithm
	New     func(headgate.Limit) (Stepper, error)
	NewLog  func(headgate.Limit) (LogStepper, error)
	Lua     string // the twin's text; see Arithmetic
}

// all lists every algorithm, in the order in which documents and reports show them.
var all []Algorithm

// init fills the list: its constructors list it in their errors.
func init() {
	all = []Algorithm{
		{Name: headgate.TokenBucket, Aliases: []headgate.Algorithm{headgate.GCRA}, New: newTokenBucket, Lua: tokenBucketLua},
		{Name: headgate.TokenBucketInterval, New: newIntervalBucket, Lua: intervalBucketLua},
		{Name: headgate.FixedWindow, New: newFixedWindow, Lua: fixedWindowLua},
		{Name: headgate.SlidingLog, NewLog: newSlidingLog, Lua: slidingLogLua},
		{Name: headgate.SlidingWindow, New: newSlidingWindow, Lua: slidingWindowLua},
		{Name: headgate.LeakyBucket, New: newLeakyBucket, Lua: leakyBucketLua()},
	}
}

// All returns every algorithm, in the order in which documents and reports show them. The list is the caller's.
func All() []Algorithm { return slices.Clone(all) }

// Named finds an algorithm by its name or an alias; the empty name is the token bucket. An unknown one is answered with
// [headgate.ErrUnknownAlgorithm] and the list of names.
func Named(name headgate.Algorithm) (Algorithm, error) {
	if name == "" {
		name = headgate.TokenBucket
	}
	for _, a := range all {
		if a.Name == name || slices.Contains(a.Aliases, name) {
			return a, nil
		}
	}
	shown := string(name)
	if len(shown) > 40 {
		shown = shown[:40] + "…"
	}
	return Algorithm{}, fmt.Errorf("%w %q; there are %s", headgate.ErrUnknownAlgorithm, shown, strings.Join(Names(), ", "))
}

// Names are all names that [Named] accepts.
func Names() []string {
	var names []string
	for _, a := range all {
		names = append(names, string(a.Name))
		for _, alias := range a.Aliases {
			names = append(names, string(alias))
		}
	}
	return names
}

// NamesWhere lists the algorithms of a kind for an error: “a, b or c” for, say, headgate.Algorithm.CanReserve.
func NamesWhere(kind func(headgate.Algorithm) bool) string {
	var names []string
	for _, a := range all {
		if kind(a.Name) {
			names = append(names, string(a.Name))
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

// Check returns the error that New or NewLog returns for l, or nil. It is a
// [*headgate.LimitError]: a field is outside the domain, or a does not use it.
func (a Algorithm) Check(l headgate.Limit) error {
	var err error
	if a.NewLog != nil {
		_, err = a.NewLog(l)
	} else {
		_, err = a.New(l)
	}
	return err
}

// validate returns an error for a limit outside the domain, and for a field that the algorithm
// does not use: a queue where no request is delayed, or a burst under a window. The table of
// kinds in package headgate decides which algorithms use them.
func validate(l headgate.Limit, name headgate.Algorithm) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if l.Queue > 0 && !name.Queues() {
		return unused("queue", l.Queue, name, headgate.Algorithm.Queues)
	}
	if l.Burst > 0 && name.Windowed() {
		return unused("burst", l.Burst, name, func(other headgate.Algorithm) bool { return !other.Windowed() })
	}
	return nil
}

// unused is the error for a field that the algorithm does not use and those of a kind do.
func unused(field string, value int64, name headgate.Algorithm, kind func(headgate.Algorithm) bool) error {
	return &headgate.LimitError{
		Field: field, Value: strconv.FormatInt(value, 10),
		Bound: fmt.Sprintf("must be 0 under %s; a %s requires %s", name, field, NamesWhere(kind)),
	}
}

func periodMicros(l headgate.Limit) int64 { return int64(l.Period / time.Microsecond) }

// never is the answer to a cost above the limit, once the rest of it is known.
func never(d headgate.Decision) headgate.Decision {
	d.Allowed, d.Never, d.RetryAfter, d.Delay = false, true, 0, 0
	return d
}

// saturatingMul is a·b for a, b ≥ 0, or the largest int64.
func saturatingMul(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// ceilDiv is a/b rounded up, for a ≥ 0 and b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if q*b != a {
		q++
	}
	return q
}
