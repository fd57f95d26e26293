package model

import (
	"math/big"

	"github.com/headgate/headgate"
)

// slidingWindow estimates the units of the last P from two aligned windows: the whole
// count of the current window, and of the previous window the share that overlaps the
// last P.
type slidingWindow struct {
	window int64 // k
	prev   int64
	cur    int64
	limit  int64 // L
	period int64 // P
}

func (w *slidingWindow) clone() state {
	c := *w
	return &c
}

// carry keeps the counts. The model does not define what happens to them under another
// period.
func (w *slidingWindow) carry(l headgate.Limit, _ int64) {
	w.limit, w.period = l.Rate, l.Period.Microseconds()
}

// advance moves to the window of t. If the clock has gone backwards, the later window
// stays, at its beginning.
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

// free is (L − E)·P, where E = prev·(P−e)/P + cur and e is the time from the start of
// the window to t.
func (w *slidingWindow) free(t int64) *big.Int {
	e := max(0, t-w.window*w.period)
	free := product(w.limit-w.cur, w.period)
	return free.Sub(free, product(w.prev, w.period-e))
}

// admits: E + n ≤ L.
func (w *slidingWindow) admits(t, n int64) bool { return w.free(t).Cmp(product(n, w.period)) >= 0 }

func (w *slidingWindow) spend(_, n int64) { w.cur += n }

func (w *slidingWindow) refund(_, n int64) {
	fromCur := min(n, w.cur)
	w.cur -= fromCur
	w.prev -= min(n-fromCur, w.prev)
}

// remaining is floor(L − E), not below 0.
func (w *slidingWindow) remaining(t int64) int64 {
	return max(0, floor(new(big.Rat).SetFrac(w.free(t), big.NewInt(w.period))))
}

// admittedAt searches for the first microsecond in this window or the next two in which
// n is admitted. Without takes, E never grows, and it is 0 after two windows.
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
