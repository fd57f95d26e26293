package model

import (
	"math/big"

	"github.com/headgate/headgate"
)

// slidingWindow estimates the number of units that were spent within the last period P.
// It adds up the count of the current window and a share of the count of the previous
// window: the share of that window which is within the last P.
type slidingWindow struct {
	window int64 // number of the current window: k
	prev   int64
	cur    int64
	limit  int64 // units in a period: L
	period int64 // length of a window in µs: P
}

func (w *slidingWindow) clone() state {
	c := *w
	return &c
}

// carry keeps the counts under the new limit. The model does not define what happens to
// the counts if the period changes.
func (w *slidingWindow) carry(l headgate.Limit, _ int64) {
	w.limit, w.period = l.Rate, l.Period.Microseconds()
}

// advance moves to the window that contains t. If the clock has gone backwards, the
// current window stays, and the methods treat t as the beginning of that window.
func (w *slidingWindow) advance(t int64) {
	k := t / w.period
	switch {
	case w.prev == 0 && w.cur == 0, k > w.window+1:
		w.window, w.prev, w.cur = k, 0, 0
	case k == w.window+1:
		w.window, w.prev, w.cur = k, w.cur, 0
	}
}

func (w *slidingWindow) capacity() int64 { return w.limit }

// free returns the number of units that are left at t, multiplied by P so that it is a
// whole number: (L − E)·P, where E = prev·(P−e)/P + cur is the estimate and e is the
// time from the start of the current window to t.
func (w *slidingWindow) free(t int64) *big.Int {
	e := max(0, t-w.window*w.period)
	free := product(w.limit-w.cur, w.period)
	return free.Sub(free, product(w.prev, w.period-e))
}

// admits reports whether E + n ≤ L, with E as in free.
func (w *slidingWindow) admits(t, n int64) bool { return w.free(t).Cmp(product(n, w.period)) >= 0 }

func (w *slidingWindow) spend(_, n int64) { w.cur += n }

func (w *slidingWindow) refund(_, n int64) {
	fromCur := min(n, w.cur)
	w.cur -= fromCur
	w.prev -= min(n-fromCur, w.prev)
}

// remaining returns floor(L − E), but at least 0, with E as in free.
func (w *slidingWindow) remaining(t int64) int64 {
	return max(0, floor(new(big.Rat).SetFrac(w.free(t), big.NewInt(w.period))))
}

// admittedAt searches for the first microsecond at which n units are admitted, from t
// to the end of the next window. If nothing is spent, E (as in free) never grows, and
// after two windows it is 0.
func (w *slidingWindow) admittedAt(t, n int64) int64 {
	return searchInstant(t, (w.window+2)*w.period, func(at int64) bool {
		later := *w
		later.advance(at)
		return later.admits(at, n)
	})
}

func (w *slidingWindow) unusedAt(t int64) int64 {
	switch {
	case w.cur > 0:
		return (w.window + 2) * w.period
	case w.prev > 0:
		return (w.window + 1) * w.period
	default:
		return t
	}
}

func (w *slidingWindow) delay(int64) int64 { return 0 }
