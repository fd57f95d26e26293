package replay

import "sort"

// series counts requests, and the denials by each policy, in consecutive intervals.
type series struct {
	start, width int64 // start of the first interval and length of all intervals, in µs; start is a multiple of width
	requests     []int64
	denied       [][]int64 // first index: policy; second index: interval

	at, until int64 // index and end time of the current interval
}

// maxIntervals is the maximum number of intervals in a series.
const maxIntervals = 120

// intervalWidths are the possible lengths of an interval, in µs. The shortest length is
// the time resolution of browsers.
var intervalWidths = [...]int64{
	1e3, 10e3, 100e3, 1e6, 2e6, 5e6, 10e6, 15e6, 30e6, 60e6, 120e6, 300e6, 600e6, 900e6, 1800e6, 3600e6, 7200e6,
	3 * 3600e6, 6 * 3600e6, 12 * 3600e6, 86400e6, 7 * 86400e6, 28 * 86400e6, 91 * 86400e6,
	364 * 86400e6, 4 * 364 * 86400e6,
}

// newSeries returns a series for the times from first to last, both in µs since the
// epoch. It has the shortest intervals with which it has at most maxIntervals.
func newSeries(first, last int64, policies int) *series {
	i := sort.Search(len(intervalWidths)-1, func(i int) bool { return last/intervalWidths[i]-first/intervalWidths[i] < maxIntervals })
	s := &series{width: intervalWidths[i], denied: make([][]int64, policies)}
	s.start = first / s.width * s.width
	spans := (last-s.start)/s.width + 1
	s.requests = make([]int64, spans)
	for policy := range s.denied {
		s.denied[policy] = make([]int64, spans)
	}
	s.until = s.start + s.width
	return s
}

// request counts a request at the time at. Times must not decrease from call to call.
func (s *series) request(at int64) {
	if at >= s.until {
		s.at = (at - s.start) / s.width
		s.until = s.start + (s.at+1)*s.width
	}
	s.requests[s.at]++
}

// deny counts a denial, by a policy, of the request that was counted last.
func (s *series) deny(policy int) { s.denied[policy][s.at]++ }
