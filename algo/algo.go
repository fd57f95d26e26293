// Package algo contains the arithmetic of every limit, and nothing else: no clock, no
// I/O, no context and no lock.
//
// Each algorithm exists twice: x.go for stores that run Go and x.lua for stores that
// run Lua. Both are exact and give the same results. All is the only list of
// algorithms.
//
// # Terms
//
// t is an instant in whole µs since the Unix epoch. A limit grants L units per period P
// (µs) and has the capacity B. n is a cost in units. A unit of a continuous bucket
// takes T = P/L µs, stored as the fraction p/d in lowest terms, because P/L rounded
// down would admit too much. Waits are rounded up, remaining units down.
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

// maxExact is the largest whole number below which Lua's doubles, and so every instant
// in a state, are exact.
const maxExact = 1<<53 - 1

// State is what a store keeps for a key: three whole numbers that only the algorithm
// interprets. A is an instant of at most 53 bits. B and C have at most 30 bits each.
// None is negative. The zero value is an unused key.
type State struct{ A, B, C int64 }

// Stepper is one algorithm under one limit: pure functions of a state and an instant.
// Costs are at least 0. It is safe for concurrent use and does not allocate.
type Stepper interface {
	// Take spends n units at t if they are available. It returns the state to keep. If
	// n is denied this is s, unless the limit was changed and the state must be carried
	// over. n = 0 is always allowed and only carries over.
	Take(s State, t, n int64) (State, bool)

	// Answer returns the decision for s, the state after a decision at t on a request
	// for asked units, of which spent were taken from s.
	Answer(s State, t, asked, spent int64, allowed bool) headgate.Decision

	// Refund refunds n units at t: at most what was spent.
	Refund(s State, t, n int64) State

	// Undo returns the state at t as if n units had not been taken at t0. That take
	// changed was to after, and the state is now s. It refunds as much as is certain:
	// everything if no other request used the key, and never more than would be
	// available without the take. It refunds nothing where that is unknown, for example
	// after the clock went back. n = 0 is for a take of which only the states are
	// known. Undo cannot detect units that were refunded or reset since t0 without
	// having been taken since, and decisions under another limit.
	Undo(s, was, after State, t0, t, n int64) State

	// ResetAt returns the first instant at which s is unused again. If it is not after
	// the present, s is unused.
	ResetAt(s State) int64

	// Spacing returns a lower bound of the µs that the limit needs to grant n more
	// units to callers that wait.
	Spacing(n int64) int64

	// Params returns the numbers of the limit that the Lua implementation takes.
	Params() []int64
}

// Reserver is a Stepper that can reserve future units.
type Reserver interface {
	Stepper

	// Reserve takes n units at t if they are available within maxDelay µs, and returns
	// after how many µs they are. If it does not take them, delay is how long they
	// would take, or 0 if they never become available.
	Reserve(s State, t, n, maxDelay int64) (after State, delay int64, booked bool)

	// Cancel refunds at t the n units of a reservation whose resulting state was mark.
	// A reservation that is due stays spent. So does one after which the state changed,
	// because the times of later reservations are promised.
	Cancel(s, mark State, t, n int64) State
}

// Rephaser is a Stepper whose refill times depend on its first use. If several keys
// share a state, it must not refill for one of them sooner than that key's own state
// would.
type Rephaser interface {
	// Rephase makes s, from which units were just spent at t, refill no sooner than a
	// state first used at t.
	Rephase(s State, t int64) State
}

// LogStepper is the Stepper of an algorithm whose state is a list. Its methods change
// the log in place, so a caller must have exclusive access.
type LogStepper interface {
	// Take spends n units at t if they are available. Without room for one more entry
	// it adds them to the newest entry, whose instant then moves up to t: such units
	// age out later than they should, never earlier.
	Take(log *Log, t, n int64, room bool) bool
	// Fits reports what Take would decide.
	Fits(log *Log, t, n int64) bool
	// Answer returns the decision for the log after a decision at t on a request for
	// asked units.
	Answer(log *Log, t, asked int64, allowed bool) headgate.Decision
	// Refund refunds n units, the newest first.
	Refund(log *Log, t, n int64)
	// Undo refunds n units of the take that left its newest entry at the instant at.
	// Units that have moved to another instant since stay spent.
	Undo(log *Log, at, n int64)
	// ResetAt is [Stepper].ResetAt.
	ResetAt(log *Log) int64
	// Spacing is [Stepper].Spacing.
	Spacing(n int64) int64
	// Params is [Stepper].Params.
	Params() []int64
}

// Algorithm is an entry of the list of algorithms. Exactly one of New and NewLog is
// set.
type Algorithm struct {
	Name    headgate.Algorithm
	Aliases []headgate.Algorithm
	New     func(headgate.Limit) (Stepper, error)
	NewLog  func(headgate.Limit) (LogStepper, error)
	Lua     string // the Lua implementation; see Arithmetic
}

// all lists every algorithm, in the order of documents and reports.
var all []Algorithm

// init fills the list. A variable initializer would be a cycle, because the
// constructors list the algorithms in their errors.
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

// All returns every algorithm, in the order of documents and reports. The caller owns
// the slice.
func All() []Algorithm { return slices.Clone(all) }

// Named returns the algorithm with a name or an alias. The empty name is the token
// bucket. An unknown name returns [headgate.ErrUnknownAlgorithm] with the list of
// names.
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
	return Algorithm{}, fmt.Errorf("%w %q; must be one of %s", headgate.ErrUnknownAlgorithm, shown, strings.Join(Names(), ", "))
}

// Names returns all names that [Named] accepts.
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

// NamesWhere returns the names of the algorithms for which kind returns true, for an
// error: "a, b or c". kind is, for example, headgate.Algorithm.CanReserve.
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

// validate returns an error for a limit outside the domain, and for a field that the
// algorithm does not use: a queue where no request is delayed, or a burst under a
// window. The table of kinds in package headgate decides which algorithms use them.
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

// unused returns the error for a field that the algorithm does not use. kind reports
// which algorithms use it.
func unused(field string, value int64, name headgate.Algorithm, kind func(headgate.Algorithm) bool) error {
	return &headgate.LimitError{
		Field: field, Value: strconv.FormatInt(value, 10),
		Bound: fmt.Sprintf("must be 0 under %s; a %s requires %s", name, field, NamesWhere(kind)),
	}
}

func periodMicros(l headgate.Limit) int64 { return int64(l.Period / time.Microsecond) }

// never returns d as the decision for a cost above the limit.
func never(d headgate.Decision) headgate.Decision {
	d.Allowed, d.Never, d.RetryAfter, d.Delay = false, true, 0, 0
	return d
}

// saturatingMul returns a·b for a, b ≥ 0, or the largest int64 if the product is
// larger.
func saturatingMul(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// ceilDiv returns a/b rounded up, for a ≥ 0 and b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if q*b != a {
		q++
	}
	return q
}
