package replay

import "sort"

// series counts requests, and denials by lane, in equal spans of time.
type series struct {
	start, width int64 // µs; start is a multiple of width
	requests     []int64
	denied       [][]int64 // by lane, then span

	at, until int64 // the span that is current, and the instant at which it ends
}

// mostSpans is how many spans a series has at most.
const mostSpans = 120

// spanWidths are the widths a series may have, in µs: such as people count time in. The shortest is what browsers' clocks tell apart.
var spanWidths = [...]int64{
	1e3, 10e3, 100e3, 1e6, 2e6, 5e6, 10e6, 15e6, 30e6, 60e6, 120e6, 300e6, 600e6, 900e6, 1800e6, 3600e6, 7200e6,
	3 * 3600e6, 6 * 3600e6, 12 * 3600e6, 86400e6, 7 * 86400e6, 28 * 86400e6, 91 * 86400e6,
	364 * 86400e6, 4 * 364 * 86400e6,
}

// newSeries covers first to last.
func newSeries(first, last int64, lanes int) *series {
	i := sort.Search(len(spanWidths)-1, func(i int) bool { return last/spanWidths[i]-first/spanWidths[i] < mostSpans })
	s := &series{width: spanWidths[i], denied: make([][]int64, lanes)}
	s.start = first / s.width * s.width
	spans := (last-s.start)/s.width + 1
	s.requests = make([]int64, spans)
	for lane := range s.denied {
		s.denied[lane] = make([]int64, spans)
	}
	s.until = s.start + s.width
	return s
}

// request counts a request at the instant at, which is not before that of the last call.
func (s *series) request(at int64) {
	if at >= s.until {
		s.at = (at - s.start) / s.width
		s.until = s.start + (s.at+1)*s.width
	}
	s.requests[s.at]++
}

// deny counts a denial, by a lane, of the request last counted.
func (s *series) deny(lane int) { s.denied[lane][s.at]++ }
