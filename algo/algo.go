// Package algo implements the rate limiting algorithms as pure arithmetic: it has no
// clock, no I/O, no context and no lock.
//
// Each algorithm exists twice: in x.go for stores that run Go, and in x.lua for stores
// that run Lua. Both are exact and give the same results. [All] is the only list of
// algorithms.
//
// # Terms
//
// In comments, t is an instant in whole µs since the Unix epoch and n is a cost in
// units. A limit grants L units per period P (in µs) and has the capacity B. A
// continuous bucket refills one unit in T = P/L µs. T is stored as the fraction p/d in
// lowest terms, because P/L rounded down would allow too much. Waits are rounded up;
// remaining units are rounded down.
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

// maxExact is the maximum instant in a state: the doubles of Lua represent every whole
// number up to it exactly.
const maxExact = 1<<53 - 1

// State is the data that a store keeps for a key: three whole numbers that only the
// algorithm interprets. A is an instant of at most 53 bits. B and C have at most 30
// bits each. No number is negative. The zero value is the state of an unused key.
type State struct{ A, B, C int64 }

// Stepper is one algorithm with one limit. Its methods are pure functions of a state
// and an instant. Costs must be at least 0. A Stepper may be used concurrently and does
// not allocate.
type Stepper interface {
	// Take spends n units at t if they are available. It returns the new state, and
	// whether the units were spent. If they were not, the new state is s, even if s was
	// written under another limit. n = 0 is always allowed and returns s.
	Take(s State, t, n int64) (State, bool)

	// Answer returns the decision on a request for asked units at t. s is the state
	// after the request, and spent is the number of units that the request spent.
	Answer(s State, t, asked, spent int64, allowed bool) headgate.Decision

	// Refund refunds n units at t, but not more than were spent.
	Refund(s State, t, n int64) State

	// Undo returns the state at t as if a take of n units at t0 had not happened. The
	// take changed the state from was to after; s is the current state. Undo refunds
	// only as many units as is certain: all of them if no other request used the key,
	// and never more than would be available without the take. If this is unknown, for
	// example after the clock went back, it refunds nothing. n = 0 means that only the
	// two states of the take are known. Undo cannot detect decisions under another
	// limit, or a refund or reset since t0 after which nothing was spent.
	Undo(s, was, after State, t0, t, n int64) State

	// ResetAt returns the first instant at which s is unused again. If this instant is
	// not in the future, s is unused.
	ResetAt(s State) int64

	// Spacing returns a lower bound, in µs, on the time until n further units are
	// available to waiting callers.
	Spacing(n int64) int64

	// Params returns the numbers that describe the limit to the Lua implementation.
	Params() []int64
}

// Reserver is a Stepper that can reserve units before they are available.
type Reserver interface {
	Stepper

	// Reserve spends n units at t if they are available within maxDelay µs. It returns
	// the number of µs until they are available. If it does not spend them, delay is
	// the number of µs that the caller would have to accept, or 0 if the units never
	// become available.
	Reserve(s State, t, n, maxDelay int64) (after State, delay int64, booked bool)

	// Cancel refunds the n units of a reservation at t. The reservation is identified
	// by reserved, the state that Reserve returned. If the units are already due, or the
	// state has changed since, they stay spent, because the delays of later
	// reservations have been promised.
	Cancel(s, reserved State, t, n int64) State
}

// Rephaser is a Stepper whose refill times depend on when a key was first used. If a
// store uses one state for several keys, the state must not refill earlier for any of
// them than that key's own state would.
type Rephaser interface {
	// Rephase delays the refills of s, from which units were just spent at t, so that
	// they are not earlier than those of a state first used at t.
	Rephase(s State, t int64) State
}

// LogStepper is like Stepper, for an algorithm whose state is a list. Its methods
// modify the log in place, so the caller must have exclusive access to the log.
type LogStepper interface {
	// Take spends n units at t if they are available. If room is false, it does not add
	// an entry: it adds the units to the newest entry and moves that entry's instant up
	// to t. The units in this entry then age out later than they should, never earlier.
	Take(log *Log, t, n int64, room bool) bool
	// Fits reports whether Take would spend n units at t.
	Fits(log *Log, t, n int64) bool
	// Answer returns the decision on a request for asked units at t. log is the log
	// after the request.
	Answer(log *Log, t, asked int64, allowed bool) headgate.Decision
	// Refund refunds n units, beginning with the newest.
	Refund(log *Log, t, n int64)
	// Undo refunds n units of a take. at is the instant of the log's newest entry just
	// after that take. Units that have since moved to another instant
	// stay spent.
	Undo(log *Log, at, n int64)
	// Charge spends n units at t, whether or not they are available. room is as in Take.
	Charge(log *Log, t, n int64, room bool)
	// Correct removes n units that were charged at the instant at, unless they have aged
	// out, moved to another instant or been refunded.
	Correct(log *Log, t, at, n int64)
	// ResetAt returns the first instant at which the log is unused again, as
	// [Stepper.ResetAt] does for a state.
	ResetAt(log *Log) int64
	// Spacing returns the same lower bound as [Stepper.Spacing].
	Spacing(n int64) int64
	// Params returns the same numbers as [Stepper.Params].
	Params() []int64
}

// Algorithm describes one algorithm. Exactly one of New and NewLog is set.
type Algorithm struct {
	Name    headgate.Algorithm
	Aliases []headgate.Algorithm
	New     func(headgate.Limit) (Stepper, error)
	NewLog  func(headgate.Limit) (LogStepper, error)
	Lua     string // text of the Lua implementation; see Arithmetic
}

// all lists every algorithm, in the order used by documents and reports.
var all []Algorithm

// init fills the list. A variable initializer would be a cycle, because the errors of
// the constructors list the algorithms.
func init() {
	all = []Algorithm{
		{Name: headgate.TokenBucket, Aliases: []headgate.Algorithm{headgate.GCRA}, New: newTokenBucket, Lua: tokenBucketLua},
		{Name: headgate.TokenBucketInterval, New: newIntervalBucket, Lua: intervalBucketLua},
		{Name: headgate.FixedWindow, New: newFixedWindow, Lua: windowCountLua + fixedWindowLua},
		{Name: headgate.SlidingLog, NewLog: newSlidingLog, Lua: slidingLogLua},
		{Name: headgate.SlidingWindow, New: newSlidingWindow, Lua: slidingWindowLua},
		{Name: headgate.LeakyBucket, New: newLeakyBucket, Lua: leakyBucketLua()},
		{Name: headgate.CalendarWindow, New: newCalendarWindow, Lua: windowCountLua + calendarWindowLua},
		{Name: headgate.Concurrency, New: newConcurrency, Lua: concurrencyLua},
	}
}

// All returns every algorithm, in the order used by documents and reports. The caller
// owns the slice.
func All() []Algorithm { return slices.Clone(all) }

// Rates returns the algorithms that limit a rate: all except those under which only holds
// take units. The caller owns the slice.
func Rates() []Algorithm {
	return slices.DeleteFunc(All(), func(a Algorithm) bool { return a.Name.OnlyHolds() })
}

// Named returns the algorithm with the given name or alias. The empty name means the
// token bucket. For an unknown name, Named returns [headgate.ErrUnknownAlgorithm] with
// a list of the names.
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
	return Algorithm{}, fmt.Errorf("%w %q%s; must be one of %s", headgate.ErrUnknownAlgorithm, shown, meantBy(shown), strings.Join(Names(), ", "))
}

// meantBy returns a question for an unknown name that differs from a known name only in
// letter case and separators, such as “ (did you mean sliding_window?)”, or "".
func meantBy(unknown string) string {
	plain := func(name string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
	}
	for _, name := range Names() {
		if plain(name) == plain(unknown) {
			return " (did you mean " + name + "?)"
		}
	}
	return ""
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

// NamesWhere returns the names of all algorithms for which kind returns true, as text
// for an error: “a, b or c”. For example, kind is headgate.Algorithm.CanReserve.
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

// Check returns nil if New or NewLog accepts the limit l, otherwise a
// [*headgate.LimitError]: a field of l is outside the accepted range, or the algorithm
// does not use that field.
func (a Algorithm) Check(l headgate.Limit) error {
	var err error
	if a.NewLog != nil {
		_, err = a.NewLog(l)
	} else {
		_, err = a.New(l)
	}
	return err
}

// validate returns an error if a field of the limit is outside the range that the
// algorithm accepts, or is set although the algorithm does not use it: a queue if
// requests are not delayed, or a burst if the algorithm counts in windows. Package
// headgate defines these properties of each algorithm.
func validate(l headgate.Limit, name headgate.Algorithm) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if l.Rate > name.MaxRate() {
		return &headgate.LimitError{
			Field: "rate", Value: strconv.FormatInt(l.Rate, 10),
			Bound: fmt.Sprintf("must be 1 to %d under %s; a larger rate requires %s", name.MaxRate(), name,
				NamesWhere(func(other headgate.Algorithm) bool { return other.MaxRate() > name.MaxRate() })),
		}
	}
	if l.Concurrent != name.OnlyHolds() {
		return notConcurrent(l, name)
	}
	if l.Period == 0 && !name.HasCalendar() && !l.Concurrent {
		_, window, _ := strings.Cut(l.String(), "/")
		return &headgate.LimitError{
			Field: "period", Value: window,
			Bound: fmt.Sprintf("must be a period under %s; write %s, or use the algorithm %s",
				name, nominal[l.Calendar.Unit], NamesWhere(headgate.Algorithm.HasCalendar)),
		}
	}
	if l.Queue > 0 && !name.Queues() {
		return unused("queue", l.Queue, name, headgate.Algorithm.Queues)
	}
	if l.Burst > 0 && name.Windowed() {
		return unused("burst", l.Burst, name, func(other headgate.Algorithm) bool { return !other.Windowed() })
	}
	return nil
}

// notConcurrent returns the error for a rate under an algorithm that counts concurrent
// units, or for a number of concurrent units under another algorithm.
func notConcurrent(l headgate.Limit, name headgate.Algorithm) error {
	if !l.Concurrent {
		return &headgate.LimitError{
			Field: "limit", Value: l.String(),
			Bound: fmt.Sprintf("must be a number of concurrent units under %s; write %s", name, headgate.Limit{Rate: l.Rate, Concurrent: true}),
		}
	}
	return &headgate.LimitError{
		Field: "limit", Value: l.String(),
		Bound: fmt.Sprintf("must be a rate under %s, such as %d/s; a limit of concurrent units requires %s", name, l.Rate,
			NamesWhere(headgate.Algorithm.OnlyHolds)),
	}
}

// nominal has the period that is nearest to each unit of the calendar.
var nominal = [...]string{
	headgate.CalendarHour: "1h", headgate.CalendarDay: "24h", headgate.CalendarWeek: "7d",
	headgate.CalendarMonth: "30d", headgate.CalendarQuarter: "90d", headgate.CalendarYear: "365d",
}

// unused returns the error for a field that the algorithm does not use. kind reports
// whether an algorithm uses the field.
func unused(field string, value int64, name headgate.Algorithm, kind func(headgate.Algorithm) bool) error {
	return &headgate.LimitError{
		Field: field, Value: strconv.FormatInt(value, 10),
		Bound: fmt.Sprintf("must be 0 under %s; a %s requires %s", name, field, NamesWhere(kind)),
	}
}

func periodMicros(l headgate.Limit) int64 { return int64(l.Period / time.Microsecond) }

// never returns d as a denial of a cost above the limit.
func never(d headgate.Decision) headgate.Decision {
	d.Allowed, d.Never, d.RetryAfter, d.Delay = false, true, 0, 0
	return d
}

// saturatingMul returns a·b for a, b ≥ 0, or the maximum int64 if the product is
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
