package crowd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headgate/headgate"
)

// Admission is what a process was admitted. The store decided between Before and After, in µs since the epoch by the clock that all
// processes of a machine share.
type Admission struct {
	Before, After int64
	Cost          int64 // units
}

// Bound is the most units that an algorithm under a limit admits from one instant to another, both included, in µs since the epoch.
type Bound func(from, to int64) int64

// BoundOf is what an algorithm guarantees.
func BoundOf(a headgate.Algorithm, l headgate.Limit) Bound {
	rate, period, capacity := l.Rate, l.Period.Microseconds(), l.Capacity()
	switch a {
	case headgate.FixedWindow: // in each window that it touches
		return func(from, to int64) int64 { return rate * (to/period - from/period + 1) }
	case headgate.SlidingLog: // in any period, of which it needs so many to be covered
		return func(from, to int64) int64 { return rate * ((to-from)/period + 1) }
	case headgate.SlidingWindow: // for a span within one period; a longer one is covered by several
		return func(from, to int64) int64 {
			whole := max(0, to-from-1) / period
			return 2*rate*whole + rate + (to-from-whole*period)*rate/period
		}
	case headgate.TokenBucketInterval: // the bucket, and a refill at the end of each interval
		return func(from, to int64) int64 { return capacity + rate*((to-from)/period+1) }
	default:
		return func(from, to int64) int64 { return capacity + (to-from)*rate/period }
	}
}

// Check says in which span more was admitted than the bound allows, if in any. It counts only what was certainly decided within a
// span, so a failure is one.
func Check(admissions []Admission, bound Bound) error {
	byBefore := slices.Clone(admissions)
	slices.SortFunc(byBefore, func(a, b Admission) int { return cmp.Compare(a.Before, b.Before) })
	byAfter := slices.Clone(admissions)
	slices.SortFunc(byAfter, func(a, b Admission) int { return cmp.Compare(a.After, b.After) })
	for i := range byBefore {
		from := byBefore[i].Before
		if i > 0 && from == byBefore[i-1].Before {
			continue
		}
		sum := int64(0)
		for _, a := range byAfter {
			if a.Before < from {
				continue
			}
			if sum += a.Cost; sum > bound(from, a.After) {
				return fmt.Errorf("crowd: at least %d units were admitted from %d to %d, a span of %d µs; the bound is %d", sum, from, a.After, a.After-from, bound(from, a.After))
			}
		}
	}
	return nil
}
