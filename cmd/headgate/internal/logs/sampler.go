package logs

import (
	"sync"
	"time"
)

// Sampler lets so many lines be logged in each second, and counts the others. The zero value is ready; it may be used concurrently.
type Sampler struct {
	mu      sync.Mutex
	second  int64 // that logged is of
	logged  int
	leftOut uint64 // since the last one that was logged
	all     uint64 // that were left out, ever
}

// Take reports whether a line is logged now, of which there are at most so many in a second, and how many were not since the last one
// that was. now is in nanoseconds since whatever moment.
func (s *Sampler) Take(now int64, most int) (leftOut uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if second := now / int64(time.Second); second != s.second {
		s.second, s.logged = second, 0
	}
	if s.logged >= most {
		s.leftOut++
		s.all++
		return 0, false
	}
	s.logged++
	leftOut, s.leftOut = s.leftOut, 0
	return leftOut, true
}

// LeftOut is how many lines were not logged, ever.
func (s *Sampler) LeftOut() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}
