//go:build madeup

package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
)

//go:embed madeup.lua
var madeUpLua string

func init() {
	all = append(all,
		Algorithm{Name: madeUpCounter, New: newMadeUpCounter, Lua: madeUpLua},
		Algorithm{Name: madeUpPacer, New: newMadeUpPacer, Lua: leakyBucketLua()},
	)
}

const (
	madeUpCounter headgate.Algorithm = "made_up_counter"
	madeUpPacer   headgate.Algorithm = "made_up_pacer"
)

// newMadeUpPacer makes the leaky bucket under a name of its own.
func newMadeUpPacer(l headgate.Limit) (Stepper, error) {
	if err := validate(l, madeUpPacer); err != nil {
		return nil, err
	}
	return makeBucket(l, true), nil
}

// shiftedWindow counts in windows [k·P − P/2, (k+1)·P − P/2). Its state is A, the end of the window, and B, the count in it.
type shiftedWindow struct{ limit, period, half int64 }

func newMadeUpCounter(l headgate.Limit) (Stepper, error) {
	if err := validate(l, madeUpCounter); err != nil {
		return nil, err
	}
	return &shiftedWindow{limit: l.Rate, period: periodMicros(l), half: periodMicros(l) / 2}, nil
}

// endsAt is the end of the first window that ends at end or later.
func (w *shiftedWindow) endsAt(end int64) int64 {
	return ceilDiv(end+w.half, w.period)*w.period - w.half
}

// at is the state in the window of t. A later window stays until it ends.
func (w *shiftedWindow) at(s State, t int64) State {
	end := t - (t+w.half)%w.period + w.period
	switch {
	case s.B == 0 || s.A <= end-w.period:
		return State{A: end}
	case s.A <= end:
		return State{A: end, B: s.B}
	default:
		return State{A: w.endsAt(s.A), B: s.B}
	}
}

func (w *shiftedWindow) Take(s State, t, n int64) (State, bool) {
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

func (w *shiftedWindow) Answer(s State, t, asked, _ int64, allowed bool) headgate.Decision {
	s = w.at(s, t)
	d := headgate.Decision{Allowed: allowed, Limit: w.limit, Remaining: max(0, w.limit-s.B)}
	if s.B > 0 {
		d.ResetAfter = headgate.Micros(s.A - t)
	}
	switch {
	case allowed:
	case asked > w.limit:
		return never(d)
	default:
		d.RetryAfter = headgate.Micros(s.A - t)
	}
	return d
}

func (w *shiftedWindow) Refund(s State, t, n int64) State {
	now := w.at(s, t)
	if now.B == 0 || n == 0 {
		return s
	}
	now.B -= min(n, now.B)
	return now
}

func (w *shiftedWindow) Undo(s, was, after State, _, _, n int64) State {
	switch {
	case s == after:
		return was
	case s.A == after.A && s.B >= n:
		s.B -= n
	}
	return s
}

func (w *shiftedWindow) ResetAt(s State) int64 {
	if s.B == 0 {
		return 0
	}
	return w.endsAt(s.A)
}

func (w *shiftedWindow) Spacing(n int64) int64 {
	return min(saturatingMul(n/w.limit, w.period), maxExact)
}

func (w *shiftedWindow) Terms() []int64 { return []int64{w.limit, w.period} }
