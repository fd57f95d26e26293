package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

//go:embed fixedwindow.lua
var fixedWindowLua string

// fixedWindow counts in windows [k·P, (k+1)·P) from the epoch.
//
// Its state is A, the end of the window, and B, the count in it. Keeping the end lets a changed period find what was counted in
// a window that reaches into its own.
type fixedWindow struct{ limit, period int64 }

func newFixedWindow(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.FixedWindow); err != nil {
		return nil, err
	}
	return &fixedWindow{limit: l.Rate, period: periodMicros(l)}, nil
}

// windowEnd is the end of the window that t lies in.
func windowEnd(t, period int64) int64 { return t - t%period + period }

// endsAt is the end of the window in which one of another period ended: what was counted there stays until then.
func endsAt(end, period int64) int64 { return ceilDiv(end, period) * period }

// at is the state in the window of t. A later window than that (the clock went back, or the period became shorter) stays in
// force until it ends; one in which nothing is counted was never used.
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

// Take admits iff count + n ≤ L.
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

// Answer has remaining = L − count, and both waits until the window's end.
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

// Refund lowers the current window's count, not below 0.
func (w *fixedWindow) Refund(s State, t, n int64) State {
	now := w.at(s, t)
	if now.B == 0 || n == 0 {
		return s
	}
	now.B -= min(n, now.B)
	return now
}

// Undo lowers the count of the window in which the units were counted: counts do not depend on their order.
func (w *fixedWindow) Undo(s, was, after State, _, _, n int64) State {
	switch {
	case s == after:
		return was
	case s.A == after.A && s.B >= n:
		s.B -= n
	}
	return s
}

// ResetAt is the window's end, if anything was counted.
func (w *fixedWindow) ResetAt(s State) int64 {
	if s.B == 0 {
		return 0
	}
	return endsAt(s.A, w.period)
}

// Spacing is floor(n/L) windows: whoever had to wait took some of the first.
func (w *fixedWindow) Spacing(n int64) int64 {
	return min(saturatingMul(n/w.limit, w.period), maxExact)
}

// Terms are L and P.
func (w *fixedWindow) Params() []int64 { return []int64{w.limit, w.period} }
