package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// This file has what algorithms share that count units in one window. The count of a
// window has up to 53 bits. B contains its low 30 bits and C its high 23 bits, so a count
// below 2^30 is B alone.
const (
	countLowBits = 30
	countLow     = 1<<countLowBits - 1
	countHigh    = 1<<23 - 1
)

//go:embed windowcount.lua
var windowCountLua string

// countOf returns the count in the state s.
func countOf(s State) int64 { return s.B + s.C&countHigh<<countLowBits }

// countState returns the state with the field A and the count.
func countState(a, count int64) State {
	return State{A: a, B: count & countLow, C: count >> countLowBits}
}

// windowAnswer returns the decision on a request for asked units, in a window that ends
// in wait µs. count is the count after the request. remaining is L − count.
// RetryAfter and ResetAfter both last until the end of the window.
func windowAnswer(limit, count, wait, asked int64, allowed bool) headgate.Decision {
	d := headgate.Decision{Allowed: allowed, Limit: limit, Remaining: max(0, limit-count)}
	if count > 0 {
		d.ResetAfter = micros.Duration(wait)
	}
	switch {
	case allowed:
	case asked > limit:
		return never(d)
	default:
		d.RetryAfter = micros.Duration(wait)
	}
	return d
}

// undoCount decreases the count of the window in which the units were counted. The order
// of takes does not matter for a count.
func undoCount(s, was, after State, n int64) State {
	if s == after {
		return was
	}
	if count := countOf(s); s.A == after.A && count >= n {
		return countState(s.A, count-n)
	}
	return s
}
