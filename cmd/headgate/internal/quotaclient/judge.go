package quotaclient

import "slices"

// AboveBucket returns the largest number of requests by which a span of time has more
// than capacity + length·rate/period. The times and the period are in µs.
func AboveBucket(admitted []int64, rate, period, capacity int64) int64 {
	all := slices.Sorted(slices.Values(admitted))
	if len(all) == 0 {
		return 0
	}
	// line is the number of requests before one, less what the rate allows, in
	// units of 1/period.
	worst, least := int64(0), int64(0)
	for i, at := range all {
		line := int64(i)*period - rate*(at-all[0])
		least = min(least, line)
		worst = max(worst, line+period-least-capacity*period)
	}
	return (worst + period - 1) / period
}

// AboveWindow returns the largest number of requests by which a window has more than the
// limit. Windows are aligned to the Unix epoch. The times and the period are in µs.
func AboveWindow(admitted []int64, limit, period int64) int64 {
	counts := make(map[int64]int64)
	worst := int64(0)
	for _, at := range admitted {
		counts[at/period]++
		worst = max(worst, counts[at/period]-limit)
	}
	return worst
}
