package logs

import (
	"sync"
	"time"
)

// Sampler limits the number of log lines in each second and counts the suppressed ones.
// The zero value is ready to use. Its methods may be called concurrently.
type Sampler struct {
	mu         sync.Mutex
	second     int64 // in which logged counts
	logged     int
	suppressed uint64 // since the last line that was logged
	total      uint64 // suppressed lines since the start
}

// Take reports whether a line is logged at now: at most perSecond lines are in each
// second. For a line that is logged it also returns how many were suppressed since the
// last one. now is in nanoseconds since any fixed time.
func (s *Sampler) Take(now int64, perSecond int) (suppressed uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if second := now / int64(time.Second); second != s.second {
		s.second, s.logged = second, 0
	}
	if s.logged >= perSecond {
		s.suppressed++
		s.total++
		return 0, false
	}
	s.logged++
	suppressed, s.suppressed = s.suppressed, 0
	return suppressed, true
}

// Suppressed returns the number of lines that were not logged since the start.
func (s *Sampler) Suppressed() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
