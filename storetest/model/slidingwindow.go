package model

import (
	"math/big"

	"github.com/headgate/headgate"
)

// slidingWindow estimates what was spent in the last P from two aligned windows: all of the current one's count, and of the
// previous one's the share by which the last P still overlaps it.
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

// carry keeps the counts. What becomes of them under another period is not for this model to say.
func (w *slidingWindow) carry(l headgate.Limit, _ int64) {
	w.limit, w.period = l.Rate, l.Period.Microseconds()
}

// advance moves on to the window of t. When the clock has gone back the later window stays, at its beginning.
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

// free is (L − E)·P, where E = prev·(P−e)/P + cur and e is how far into the window t is.
func (w *slidingWindow) free(t int64) *big.Int {
	e := max(0, t-w.window*w.period)
	free := product(w.limit-w.cur, w.period)
	return free.Sub(free, product(w.prev, w.period-e))
}

// admits: E + n ≤ L.
func (w *slidingWindow) admits(t, n int64) bool { return w.free(t).Cmp(product(n, w.period)) >= 0 }

func (w *slidingWindow) spend(_, n int64) { w.cur += n }

func (w *slidingWindow) refund(_, n int64) {
	back := min(n, w.cur)
	w.cur -= back
	w.prev -= min(n-back, w.prev)
}

// remaining is floor(L − E), not below 0.
func (w *slidingWindow) remaining(t int64) int64 {
	return max(0, floor(new(big.Rat).SetFrac(w.free(t), big.NewInt(w.period))))
}

// admittedAt looks for the first microsecond, in this window or the two after it, in which n is admitted. E never grows while
// nobody spends, and is 0 two windows on.
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
