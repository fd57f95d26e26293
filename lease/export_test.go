package lease

import "time"

// SetClockRate makes the clock of the store run at the given rate. Call it before the
// store is used.
func SetClockRate(s *Store, rate float64) {
	start := time.Now()
	s.clock = func() int64 { return int64(float64(time.Since(start))*rate) + 1 }
}
