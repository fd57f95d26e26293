package algo

import (
	_ "embed"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/calendar"
	"github.com/headgate/headgate/internal/micros"
)

//go:embed calendarwindow.lua
var calendarWindowLua string

// calendarWindow counts units in windows of the calendar of a time zone. A limit with a
// period has the windows of the fixed window.
//
// In its state, A is the start of the window, and B and C are the count; see countOf. The
// state of a window of another zone or start has another start, so it does not count.
type calendarWindow struct {
	noDebt
	limit   int64
	windows *calendar.Calendar
}

// CalendarStepper is a Stepper whose Lua implementation needs the window boundaries
// around the time of the request, in addition to Params.
type CalendarStepper interface {
	Stepper

	// BoundariesAt returns the boundaries of the previous, the present and the next
	// window at t, in ascending order. They follow Params. The Lua function new raises an
	// error with HEADGATE_WINDOW if the instant is not in one of these windows. The
	// caller must not modify the slice.
	BoundariesAt(t int64) []int64
}

func newCalendarWindow(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.CalendarWindow); err != nil {
		return nil, err
	}
	c := l.Calendar
	if c.Unit == 0 { // a period stays aligned to the epoch, and Lua computes its windows
		return &calendarWindow{limit: l.Rate, windows: calendar.Aligned(periodMicros(l))}, nil
	}
	windows, err := calendar.New(calendar.Unit(c.Unit), c.Zone, c.From)
	if err != nil {
		return nil, &headgate.LimitError{Field: "time zone", Value: strconv.Quote(c.Zone), Bound: err.Error()}
	}
	return &datedWindow{calendarWindow{limit: l.Rate, windows: windows}}, nil
}

// datedWindow is a calendarWindow whose windows Lua cannot compute.
type datedWindow struct{ calendarWindow }

// at returns the window that applies at t and the count in it. If the window of s begins
// after t, because the clock went back, s applies until that window ends. A state that
// begins between the start of the present window and t has another zone or start.
func (w *calendarWindow) at(s State, t int64) (begin, end, count int64) {
	begin, end = w.windows.Window(t)
	switch count = countOf(s); {
	case count == 0:
		return begin, end, 0
	case s.A == begin:
		return begin, end, count
	case s.A > t:
		return s.A, w.endOf(s), count
	default:
		return begin, end, 0
	}
}

// endOf returns the end of the window that begins at s.A. If no window begins there, s
// has another zone or start, and does not count from s.A on.
func (w *calendarWindow) endOf(s State) int64 {
	begin, end := w.windows.Window(s.A)
	if begin != s.A {
		return s.A
	}
	return end
}

// Take allows a request if and only if count + n ≤ L.
func (w *calendarWindow) Take(s State, t, n int64) (State, bool) {
	if n == 0 {
		return s, true
	}
	begin, _, count := w.at(s, t)
	if n > w.limit-count {
		return s, false
	}
	return countState(begin, count+n), true
}

// Answer calculates remaining = L − count. RetryAfter and ResetAfter both last until
// the end of the window.
func (w *calendarWindow) Answer(s State, t, asked, _ int64, allowed bool) headgate.Decision {
	_, end, count := w.at(s, t)
	return windowAnswer(w.limit, count, end-t, asked, allowed)
}

// Refund decreases the count of the current window by n, but not below 0.
func (w *calendarWindow) Refund(s State, t, n int64) State {
	begin, _, count := w.at(s, t)
	if count == 0 || n == 0 {
		return s
	}
	return countState(begin, count-min(n, count))
}

// Undo decreases the count of the window in which the units were counted.
func (w *calendarWindow) Undo(s, was, after State, _, _, n int64) State {
	return undoCount(s, was, after, n)
}

// ResetAt returns the end of the window of s, or 0 if the count is 0.
func (w *calendarWindow) ResetAt(s State) int64 {
	if countOf(s) == 0 {
		return 0
	}
	return w.endOf(s)
}

// Spacing returns a lower bound on the length of floor(n/L) windows; see the fixed
// window.
func (w *calendarWindow) Spacing(n int64) int64 { return w.windows.Shortest(n / w.limit) }

// Charge increases the count of the window.
func (w *calendarWindow) Charge(s State, t, n int64) State {
	if n == 0 {
		return s
	}
	begin, _, count := w.at(s, t)
	return countState(begin, min(micros.SaturatingAdd(count, n), maxExact))
}

// ChargedAt returns the start of the window in which the units were counted.
func (w *calendarWindow) ChargedAt(s State) int64 { return s.A }

// Correct decreases the count by n if the units were counted in the window of s. If that
// window has ended, its count does not matter. So Lua needs no boundaries around t, which
// may be the deadline of a hold that has expired long ago.
func (w *calendarWindow) Correct(s State, _, chargedAt, n int64, _ Debt) State {
	if chargedAt != s.A {
		return s
	}
	count := countOf(s)
	return countState(s.A, count-min(n, count))
}

// Raise makes the count of the window at least n.
func (w *calendarWindow) Raise(s State, t, n int64) State {
	begin, _, count := w.at(s, t)
	if count >= n {
		return s
	}
	return countState(begin, n)
}

// LeaseEnd returns the end of the window.
func (w *calendarWindow) LeaseEnd(s State, t int64) int64 {
	_, end, _ := w.at(s, t)
	return end
}

// Params returns L and an upper bound on the length of a window. It is the length of all
// windows if the limit has a period.
func (w *calendarWindow) Params() []int64 { return []int64{w.limit, w.windows.Longest()} }

// BoundariesAt returns four boundaries, or three if a window before the present one does
// not exist.
func (w *datedWindow) BoundariesAt(t int64) []int64 { return w.windows.Boundaries(t) }
