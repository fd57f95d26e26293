package lease_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/headgate/headgate"
)

// spend is a number of units that were allowed at an instant, in µs since the Unix epoch.
type spend struct{ at, units int64 }

// judge returns an error if a time span has more units than the limit without leases
// allows. It checks every span that begins and ends at a spend. l has a period of whole
// µs.
func judge(a headgate.Algorithm, l headgate.Limit, log []spend) error {
	log = slices.Clone(log)
	slices.SortFunc(log, func(a, b spend) int { return cmp.Compare(a.at, b.at) })
	period := l.Period.Microseconds()
	switch a {
	case headgate.TokenBucket:
		return judgeLine(log, l.Rate, period, l.Capacity(), math.MaxInt64)
	case headgate.TokenBucketInterval:
		return judgeSteps(log, l.Rate, period, l.Capacity())
	case headgate.SlidingLog:
		return judgeSteps(log, l.Rate, period, 0)
	case headgate.SlidingWindow:
		if err := judgeWindows(log, l.Rate, period); err != nil {
			return err
		}
		return judgeLine(log, l.Rate, period, l.Rate, period)
	default:
		return judgeWindows(log, l.Rate, period)
	}
}

// judgeLine checks all spans of a length s up to longest: they have at most
// capacity + s·rate/period units. It keeps the candidates for the start of the worst span
// in a queue, the lowest line first.
func judgeLine(log []spend, rate, period, capacity, longest int64) error {
	type begin struct{ at, line int64 } // line is the units before at, less rate·at, in units of 1/period
	var queue []begin
	sum, origin := int64(0), first(log)
	for _, s := range log {
		line := sum*period - rate*(s.at-origin)
		for len(queue) > 0 && queue[len(queue)-1].line >= line {
			queue = queue[:len(queue)-1]
		}
		queue = append(queue, begin{s.at, line})
		for s.at-queue[0].at > longest {
			queue = queue[1:]
		}
		sum += s.units
		if excess := sum*period - rate*(s.at-origin) - queue[0].line - capacity*period; excess > 0 {
			return fmt.Errorf("%d units too many from %d to %d µs", (excess+period-1)/period, queue[0].at-origin, s.at-origin)
		}
	}
	return nil
}

// judgeSteps checks all spans: one of length s has at most
// capacity + rate·(⌊s/period⌋ + 1) units. With t = q·period + r, the number of whole
// periods from t to u is the difference of their q, less one if r of t is above r of u.
func judgeSteps(log []spend, rate, period, capacity int64) error {
	below, above := newMinTree(period), newMinTree(period)
	sum, origin := int64(0), first(log)
	for _, s := range log {
		q, r := (s.at-origin)/period, (s.at-origin)%period
		below.add(r, sum-rate*q)
		above.add(period-1-r, sum-rate*q)
		sum += s.units
		least := min(below.least(r), saturate(above.least(period-2-r), rate))
		if excess := sum - rate*q - least - capacity - rate; excess > 0 {
			return fmt.Errorf("%d units too many in a span that ends at %d µs", excess, s.at-origin)
		}
	}
	return nil
}

func saturate(a, b int64) int64 {
	if a == math.MaxInt64 {
		return a
	}
	return a + b
}

// minTree is a Fenwick tree of minima.
type minTree []int64

func newMinTree(n int64) minTree {
	t := make(minTree, n+1)
	for i := range t {
		t[i] = math.MaxInt64
	}
	return t
}

func (t minTree) add(i, v int64) {
	for i++; i < int64(len(t)); i += i & -i {
		t[i] = min(t[i], v)
	}
}

// least returns the minimum of the values at 0 to i.
func (t minTree) least(i int64) (v int64) {
	v = math.MaxInt64
	for i++; i > 0; i -= i & -i {
		v = min(v, t[i])
	}
	return v
}

// judgeWindows checks that each window has at most rate units.
func judgeWindows(log []spend, rate, period int64) error {
	sum, window := int64(0), int64(-1)
	for _, s := range log {
		if s.at/period != window {
			sum, window = 0, s.at/period
		}
		if sum += s.units; sum > rate {
			return fmt.Errorf("%d units too many in the window that begins at %d µs", sum-rate, window*period)
		}
	}
	return nil
}

func first(log []spend) int64 {
	if len(log) == 0 {
		return 0
	}
	return log[0].at
}

func total(log []spend) (sum int64) {
	for _, s := range log {
		sum += s.units
	}
	return sum
}
