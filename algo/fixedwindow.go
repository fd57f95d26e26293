package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

//go:embed fixedwindow.lua
var fixedWindowLua string

// fixedWindow counts units in windows [k·P, (k+1)·P) since the Unix epoch.
//
// In its state, A is the end of the window and B is the count of the window. Because
// the end is stored, the count still applies after a change of the period, in windows
// that overlap the stored window.
type fixedWindow struct{ limit, period int64 }

func newFixedWindow(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.FixedWindow); err != nil {
		return nil, err
	}
	return &fixedWindow{limit: l.Rate, period: periodMicros(l)}, nil
}

// windowEnd returns the end of the window that contains t.
func windowEnd(t, period int64) int64 { return t - t%period + period }

// endsAt returns the end of the window that contains the parameter end, which is the
// end of a window with another period. The count of that other window remains valid
// until then.
func endsAt(end, period int64) int64 { return ceilDiv(end, period) * period }

// at returns the state in the window of t. If s is the state of a later window, because
// the clock went back or the period became shorter, s applies until that window ends. A
// window with a count of 0 is unused.
func (w *fixedWindow) at(s State, t int64) State {
	end := windowEnd(t, w.period)
	switch {
	case s.B == 0 || s.A <= end-w.period:
		return State{A: end}
	case s.A <= end:
		return State{A: end, B: s.B}
	default:
		return State{A: endsAt(s.A, w.period), B: s.B}
	}
}

// Take allows a request if and only if count + n ≤ L.
func (w *fixedWindow) Take(s State, t, n int64) (State, bool) {
	if n == 0 {
		return s, true
	}
	now := w.at(s, t)
	if n > w.limit-now.B {
		return s, false
	}
	now.B += n
	return now, true
}

// Answer calculates remaining = L − count. RetryAfter and ResetAfter both last until
// the end of the window.
func (w *fixedWindow) Answer(s State, t, asked, _ int64, allowed bool) headgate.Decision {
	s = w.at(s, t)
	d := headgate.Decision{Allowed: allowed, Limit: w.limit, Remaining: max(0, w.limit-s.B)}
	if s.B > 0 {
		d.ResetAfter = micros.Duration(s.A - t)
	}
	switch {
	case allowed:
	case asked > w.limit:
		return never(d)
	default:
		d.RetryAfter = micros.Duration(s.A - t)
	}
	return d
}

// Refund decreases the count of the current window by n, but not below 0.
func (w *fixedWindow) Refund(s State, t, n int64) State {
	now := w.at(s, t)
	if now.B == 0 || n == 0 {
		return s
	}
	now.B -= min(n, now.B)
	return now
}

// Undo decreases the count of the window in which the units were counted. The order of
// takes does not matter for a count.
func (w *fixedWindow) Undo(s, was, after State, _, _, n int64) State {
	switch {
	case s == after:
		return was
	case s.A == after.A && s.B >= n:
		s.B -= n
	}
	return s
}

// ResetAt returns the end of the window, or 0 if the count is 0.
func (w *fixedWindow) ResetAt(s State) int64 {
	if s.B == 0 {
		return 0
	}
	return endsAt(s.A, w.period)
}

// Spacing returns floor(n/L) periods, as the lower bound of [Stepper.Spacing]. The first
// waiting caller has already spent units in the window in which it is served, so at
// least floor(n/L) further windows must begin before n further units are available.
func (w *fixedWindow) Spacing(n int64) int64 {
	return min(saturatingMul(n/w.limit, w.period), maxExact)
}

// Params returns L and P.
func (w *fixedWindow) Params() []int64 { return []int64{w.limit, w.period} }
