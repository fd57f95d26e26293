package logs

import (
	"sync"
	"time"
)

// Sampler limits the number of log lines in each second and counts the suppressed ones.
// The zero value is ready to use. Its methods may be called concurrently.
type Sampler struct {
	mu         sync.Mutex
	second     int64 // second for which lines are counted in logged
	logged     int
	suppressed uint64 // number of suppressed lines since the last logged line
	total      uint64 // number of suppressed lines since the start
}

// Take reports whether a line may be logged at the time now, in
// nanoseconds since any fixed time. At most perSecond lines may be logged in each
// second. If the line may be logged, Take also returns how many lines were suppressed
// since the last logged line.
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

// Suppressed returns the number of lines that were suppressed since the start.
func (s *Sampler) Suppressed() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
