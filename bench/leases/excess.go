package leases

import (
	"cmp"
	"slices"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/stores"
)

// WindowExcess returns how many units more than l.Burst one window has at most, or 0. It
// does not count an admission that may belong to two windows.
func WindowExcess(l bench.Limit, log []Admission) (most int64) {
	window := l.Window().Microseconds()
	counts := map[int64]int64{}
	for _, a := range log {
		if n := a[0] / window; n == a[1]/window {
			counts[n]++
			most = max(most, counts[n]-int64(l.Burst))
		}
	}
	return most
}

// BucketExcess returns how many units more than a token bucket allows there are in any
// time span, at most, or 0. A span of length s may have l.Burst units plus those of the
// rate in s. An admission counts only in spans that certainly contain it. The result is
// rounded down.
func BucketExcess(l bench.Limit, log []Admission) (most int64) {
	rate, period := int64(l.Count), l.Per.Microseconds()
	byBefore := slices.Clone(log)
	slices.SortFunc(byBefore, func(a, b Admission) int { return cmp.Compare(a[0], b[0]) })
	byAfter := slices.Clone(log)
	slices.SortFunc(byAfter, func(a, b Admission) int { return cmp.Compare(a[1], b[1]) })
	spans := newSpans(len(log))
	next := map[int64]int{} // the next place of the same start
	for _, a := range byAfter {
		place, ok := next[a[0]]
		if !ok {
			place, _ = slices.BinarySearchFunc(byBefore, a[0], func(b Admission, at int64) int { return cmp.Compare(b[0], at) })
		}
		next[a[0]] = place + 1
		spans.add(place, period, rate*(a[0]-byBefore[0][0]))
		most = max(most, (spans.most()-rate*(a[1]-byBefore[0][0]))/period-int64(l.Burst))
	}
	return most
}

// spans finds the worst begin of a span. It is a binary tree over the possible begins in
// the order of time. Units and rates are multiplied by the period.
type spans []node

// node is a range of starts.
type node struct {
	sum  int64 // units that were added in this range
	best int64 // maximum over the starts: units from there to the end of this range, plus line
}

func newSpans(n int) spans {
	size := 1
	for size < n {
		size *= 2
	}
	s := make(spans, 2*size)
	for i := range s {
		s[i].best = -1 << 60
	}
	return s
}

// add adds units to one start. line is the rate multiplied by its time.
func (s spans) add(place int, units, line int64) {
	i := place + len(s)/2
	s[i] = node{units, units + line}
	for i /= 2; i > 0; i /= 2 {
		left, right := s[2*i], s[2*i+1]
		s[i] = node{left.sum + right.sum, max(right.best, left.best+right.sum)}
	}
}

// most returns the maximum of all begins.
func (s spans) most() int64 { return s[1].best }

// Excess returns the excess of a row: of the worst window or of the worst span.
func Excess(r stores.Row, l bench.Limit, log []Admission) int64 {
	if r.Window {
		return WindowExcess(l, log)
	}
	return BucketExcess(l, log)
}
