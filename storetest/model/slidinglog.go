package model

import (
	"slices"

	"github.com/headgate/headgate"
)

// slidingLog stores the time at which each unit was spent. A unit counts for one
// period.
type slidingLog struct {
	spent  []entry // in time order
	limit  int64   // maximum number of units in a period: L
	period int64   // in µs: P
}

type entry struct{ at, units int64 }

func (w *slidingLog) clone() state {
	c := *w
	c.spent = slices.Clone(w.spent)
	return &c
}

func (w *slidingLog) carry(l headgate.Limit, _ int64) {
	w.limit, w.period = l.Rate, l.Period.Microseconds()
}

// advance removes units that no longer count: a unit spent at t₀ counts while t − t₀ <
// P.
func (w *slidingLog) advance(t int64) {
	w.spent = slices.DeleteFunc(w.spent, func(e entry) bool { return t-e.at >= w.period })
}

func (w *slidingLog) counted() (sum int64) {
	for _, e := range w.spent {
		sum += e.units
	}
	return sum
}

func (w *slidingLog) capacity() int64 { return w.limit }

func (w *slidingLog) admits(_, n int64) bool { return w.counted()+n <= w.limit }

// spend adds n units at t. If the clock has gone backwards, it adds them at the time of
// the newest entry, so that they do not expire earlier than with a constant clock.
func (w *slidingLog) spend(t, n int64) {
	if len(w.spent) > 0 {
		t = max(t, w.newest().at)
	}
	w.spent = append(w.spent, entry{t, n})
}

func (w *slidingLog) newest() entry { return w.spent[len(w.spent)-1] }

// refund removes the newest n units.
func (w *slidingLog) refund(_, n int64) {
	for n > 0 && len(w.spent) > 0 {
		last := len(w.spent) - 1
		removed := min(n, w.spent[last].units)
		n -= removed
		if w.spent[last].units -= removed; w.spent[last].units == 0 {
			w.spent = w.spent[:last]
		}
	}
}

func (w *slidingLog) remaining(int64) int64 { return max(0, w.limit-w.counted()) }

// admittedAt returns the instant at which enough of the oldest units have expired.
func (w *slidingLog) admittedAt(t, n int64) int64 {
	counted := w.counted()
	for _, e := range w.spent {
		if counted+n <= w.limit {
			break
		}
		counted -= e.units
		t = e.at + w.period
	}
	return t
}

// unusedAt returns the instant at which the newest unit has expired.
func (w *slidingLog) unusedAt(t int64) int64 {
	if len(w.spent) == 0 {
		return t
	}
	return w.newest().at + w.period
}

func (w *slidingLog) delay(int64) int64 { return 0 }
