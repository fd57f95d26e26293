package model

import "github.com/headgate/headgate"

// fixedWindow counts the units that were spent in the current window. Window number k
// is [k·P, (k+1)·P).
type fixedWindow struct {
	window int64 // number of the current window: k
	count  int64
	limit  int64 // units in a window: L
	period int64 // length of a window in µs: P
}

func (w *fixedWindow) clone() state {
	c := *w
	return &c
}

// carry keeps the count under the new limit. The model does not define what happens to
// the count if the period changes.
func (w *fixedWindow) carry(l headgate.Limit, _ int64) {
	w.limit, w.period = l.Rate, l.Period.Microseconds()
}

// advance starts the window that contains t if it is later than the current window. If
// the clock has gone backwards, the current window stays, because its count must not be
// forgotten.
func (w *fixedWindow) advance(t int64) {
	if k := t / w.period; k > w.window || w.count == 0 {
		w.window, w.count = k, 0
	}
}

func (w *fixedWindow) capacity() int64 { return w.limit }

func (w *fixedWindow) admits(_, n int64) bool { return w.count+n <= w.limit }

func (w *fixedWindow) spend(_, n int64) { w.count += n }

func (w *fixedWindow) refund(_, n int64) { w.count -= min(n, w.count) }

func (w *fixedWindow) remaining(int64) int64 { return max(0, w.limit-w.count) }

func (w *fixedWindow) admittedAt(int64, int64) int64 { return (w.window + 1) * w.period }

func (w *fixedWindow) unusedAt(t int64) int64 {
	if w.count == 0 {
		return t
	}
	return (w.window + 1) * w.period
}

func (w *fixedWindow) delay(int64) int64 { return 0 }
