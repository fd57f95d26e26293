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
// In its state, A is the end of the window, and B and C are the count of the window; see
// countOf. Because the end is stored, the count still applies after a change of the
// period, in windows that overlap the stored window.
type fixedWindow struct {
	limit, period int64
	noDebt
}

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

// at returns the end of the window of t and the count in it. If s is the state of a later
// window, because the clock went back or the period became shorter, s applies until that
// window ends, and at returns that end. A window with a count of 0 is unused.
func (w *fixedWindow) at(s State, t int64) (end, count int64) {
	end, count = windowEnd(t, w.period), countOf(s)
	switch {
	case count == 0 || s.A <= end-w.period:
		return end, 0
	case s.A <= end:
		return end, count
	default:
		return endsAt(s.A, w.period), count
	}
}

// Take allows a request if and only if count + n ≤ L.
func (w *fixedWindow) Take(s State, t, n int64) (State, bool) {
	if n == 0 {
		return s, true
	}
	end, count := w.at(s, t)
	if n > w.limit-count {
		return s, false
	}
	return countState(end, count+n), true
}

// Answer calculates remaining = L − count. RetryAfter and ResetAfter both last until
// the end of the window.
func (w *fixedWindow) Answer(s State, t, asked, _ int64, allowed bool) headgate.Decision {
	end, count := w.at(s, t)
	return windowAnswer(w.limit, count, end-t, asked, allowed)
}

// Refund decreases the count of the current window by n, but not below 0.
func (w *fixedWindow) Refund(s State, t, n int64) State {
	end, count := w.at(s, t)
	if count == 0 || n == 0 {
		return s
	}
	return countState(end, count-min(n, count))
}

// Undo decreases the count of the window in which the units were counted.
func (w *fixedWindow) Undo(s, was, after State, _, _, n int64) State {
	return undoCount(s, was, after, n)
}

// ResetAt returns the end of the window, or 0 if the count is 0.
func (w *fixedWindow) ResetAt(s State) int64 {
	if countOf(s) == 0 {
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

// Charge increases the count of the window.
func (w *fixedWindow) Charge(s State, t, n int64) State {
	if n == 0 {
		return s
	}
	end, count := w.at(s, t)
	return countState(end, min(micros.SaturatingAdd(count, n), maxExact))
}

// ChargedAt returns the end of the window in which the units were counted.
func (w *fixedWindow) ChargedAt(s State) int64 { return s.A }

// Unit returns the period.
func (w *fixedWindow) Unit() Unit { return Unit{P: w.period} }

// Adopt moves the count to the window in which it counts under this period.
func (w *fixedWindow) Adopt(s State, t int64, from Unit, _ int64) (next State, cut int64, changed bool) {
	if from == w.Unit() {
		return s, 0, false
	}
	end, count := w.at(s, t)
	return countState(end, count), 0, true
}

// Recount returns the end of the window to which Adopt moves the count, if it contains
// the units.
func (w *fixedWindow) Recount(s State, t, chargedAt int64, _ Unit) int64 {
	end, count := w.at(s, t)
	if count == 0 || chargedAt != s.A {
		return 0
	}
	return end
}

// Correct decreases the count by n if the units were counted in the present window.
func (w *fixedWindow) Correct(s State, t, chargedAt, n int64, _ Debt) State {
	end, count := w.at(s, t)
	if count == 0 || chargedAt != s.A {
		return s
	}
	return countState(end, count-min(n, count))
}

// Raise makes the count of the window at least n.
func (w *fixedWindow) Raise(s State, t, n int64) State {
	end, count := w.at(s, t)
	if count >= n {
		return s
	}
	return countState(end, n)
}

// LeaseEnd returns the end of the window.
func (w *fixedWindow) LeaseEnd(s State, t int64) int64 {
	end, _ := w.at(s, t)
	return end
}

// Params returns L and P.
func (w *fixedWindow) Params() []int64 { return []int64{w.limit, w.period} }
