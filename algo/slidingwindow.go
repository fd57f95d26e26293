package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

//go:embed slidingwindow.lua
var slidingWindowLua string

// slidingWindow estimates the units spent in the last period from the counters of two
// aligned windows. prev is the count of the previous window, cur that of the current
// one, and e is the time since the current one began: E = prev·(P−e)/P + cur. The
// formula is from Cloudflare, "How we built rate limiting capable of scaling to
// millions of domains", 2017; here it is calculated without rounding.
//
// In its state, A is the end of the current window, B is prev and C is cur.
type slidingWindow struct {
	limit, period int64
	noDebt
}

func newSlidingWindow(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.SlidingWindow); err != nil {
		return nil, err
	}
	return &slidingWindow{limit: l.Rate, period: periodMicros(l)}, nil
}

// at returns the state in the window of t. If s is the state of a later window, because
// the clock went back or the period became shorter, s applies until that window ends. A
// window with counts of 0 is unused.
func (w *slidingWindow) at(s State, t int64) State {
	end := windowEnd(t, w.period)
	switch {
	case s.B == 0 && s.C == 0 || s.A <= end-2*w.period:
		return State{A: end}
	case s.A <= end-w.period:
		return State{A: end, B: s.C}
	case s.A <= end:
		return State{A: end, B: s.B, C: s.C}
	default:
		return State{A: endsAt(s.A, w.period), B: s.B, C: s.C}
	}
}

// free returns floor(L − E), the number of units that can be spent at t. s must be the
// state in the window of t. The result is negative if more units were spent than a
// lowered limit allows.
func (w *slidingWindow) free(s State, t int64) int64 {
	left := min(s.A-t, w.period) // P − e; at most P if the clock went back
	return w.limit - s.C - mulDivCeil(s.B, left, w.period)
}

// Take allows a request if and only if E + n ≤ L. E is not rounded.
func (w *slidingWindow) Take(s State, t, n int64) (State, bool) {
	if n == 0 {
		return s, true
	}
	now := w.at(s, t)
	if n > w.free(now, t) {
		return s, false
	}
	now.C += n
	return now, true
}

// Answer calculates remaining = floor(L − E), at least 0.
func (w *slidingWindow) Answer(s State, t, asked, _ int64, allowed bool) headgate.Decision {
	s = w.at(s, t)
	d := headgate.Decision{Allowed: allowed, Limit: w.limit, Remaining: max(0, w.free(s, t))}
	d.ResetAfter = micros.Duration(max(0, w.ResetAt(s)-t))
	switch {
	case allowed:
	case asked > w.limit:
		return never(d)
	default:
		d.RetryAfter = micros.Duration(w.admitsAt(s, asked) - t)
	}
	return d
}

// admitsAt returns the first instant at which E + n ≤ L. n must be at most L and is
// denied now. In the current window, the condition is prev·(P−e) ≤ (L−cur−n)·P. In the
// next window, where cur becomes prev, it is cur·(P−e) ≤ (L−n)·P.
func (w *slidingWindow) admitsAt(s State, n int64) int64 {
	if s.C+n <= w.limit {
		left, _ := mulDiv(w.limit-s.C-n, w.period, s.B)
		return s.A - left
	}
	left, _ := mulDiv(w.limit-n, w.period, s.C)
	return s.A + w.period - left
}

// Refund decreases cur and then prev, by n units in total, but not below 0.
func (w *slidingWindow) Refund(s State, t, n int64) State {
	now := w.at(s, t)
	if n == 0 || now.B == 0 && now.C == 0 {
		return s
	}
	fromCur := min(n, now.C)
	now.C -= fromCur
	now.B -= min(n-fromCur, now.B)
	return now
}

// Undo decreases the count of the window in which the units were counted: cur, or prev
// if one window has passed. The order of takes does not matter for a count.
func (w *slidingWindow) Undo(s, was, after State, _, _, n int64) State {
	switch {
	case s == after:
		return was
	case s.A == after.A && s.C >= n:
		s.C -= n
	case s.A == after.A+w.period && s.B >= n:
		s.B -= n
	}
	return s
}

// ResetAt returns the end of the next window if cur > 0, the end of the current window
// if only prev > 0, and 0 if both are 0.
func (w *slidingWindow) ResetAt(s State) int64 {
	switch {
	case s.C > 0:
		return endsAt(s.A, w.period) + w.period
	case s.B > 0:
		return endsAt(s.A, w.period)
	default:
		return 0
	}
}

// Spacing is derived from the limit's bound: n + 1 units need a time span s with L·(1 +
// s/P) ≥ n + 1.
func (w *slidingWindow) Spacing(n int64) int64 {
	return min(saturatingMul(max(0, n/w.limit-1), w.period), maxExact)
}

// Charge increases the count of the current window.
func (w *slidingWindow) Charge(s State, t, n int64) State {
	if n == 0 {
		return s
	}
	now := w.at(s, t)
	now.C = min(micros.SaturatingAdd(now.C, n), maxCount)
	return now
}

// ChargedAt returns the end of the window in which the units were counted.
func (w *slidingWindow) ChargedAt(s State) int64 { return s.A }

// Unit returns the period.
func (w *slidingWindow) Unit() Unit { return Unit{P: w.period} }

// Adopt moves the counts to the windows in which they count under this period.
func (w *slidingWindow) Adopt(s State, t int64, from Unit, _ int64) (next State, cut int64, changed bool) {
	if from == w.Unit() {
		return s, 0, false
	}
	return w.at(s, t), 0, true
}

// Recount returns the end of the window to which Adopt moves the units, or 0. s has the
// units in cur if they were counted in the window that ends at s.A, and in prev if they
// were counted in the one before.
func (w *slidingWindow) Recount(s State, t, chargedAt int64, from Unit) int64 {
	now, passed := w.at(s, t), s.A <= windowEnd(t, w.period)-w.period
	switch {
	case now.B == 0 && now.C == 0:
		return 0
	case chargedAt == s.A && passed:
		return now.A - w.period
	case chargedAt == s.A:
		return now.A
	case chargedAt == s.A-from.P && !passed:
		return now.A - w.period
	}
	return 0
}

// Correct decreases the count of the window in which the units were counted: cur, prev,
// or none if more than one window has passed.
func (w *slidingWindow) Correct(s State, t, chargedAt, n int64, _ Debt) State {
	now := w.at(s, t)
	switch {
	case now.B == 0 && now.C == 0:
		return s
	case chargedAt == now.A:
		now.C -= min(n, now.C)
	case chargedAt == now.A-w.period:
		now.B -= min(n, now.B)
	}
	return now
}

// Raise makes the count of the current window at least n.
func (w *slidingWindow) Raise(s State, t, n int64) State {
	now := w.at(s, t)
	if now.C >= n {
		return s
	}
	now.C = min(n, maxCount)
	return now
}

// LeaseEnd returns the end of the window.
func (w *slidingWindow) LeaseEnd(s State, t int64) int64 { return w.at(s, t).A }

// Params returns L and P.
func (w *slidingWindow) Params() []int64 { return []int64{w.limit, w.period} }
