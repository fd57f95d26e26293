package lease

import (
	"time"

	"github.com/headgate/headgate"
)

// SetClockRate makes the clock of the store run at the given rate. Call it before the
// store is used.
func SetClockRate(s *Store, rate float64) {
	start := time.Now()
	s.clock = func() int64 { return int64(float64(time.Since(start))*rate) + 1 }
}

// OnClock makes the store call f whenever it has read its clock. Call it before the store
// is used.
func OnClock(s *Store, f func()) {
	clock := s.clock
	s.clock = func() int64 {
		now := clock()
		f()
		return now
	}
}

// Keys returns the number of leased keys. Unlike Stats, it does not read the clock.
func Keys(s *Store) int64 { return s.keys.size.Load() }

// CallsInFlight returns the number of calls to the inner store that are in flight.
func CallsInFlight(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inFlight
}

// SlotsLast returns how long the hold in memory of a leased limit of slots lasts, by the
// clock of its store. It is at most 0 if the hold is not open.
func SlotsLast(b headgate.Bound, key string, id headgate.HoldID) time.Duration {
	leased := b.(*slotBound)
	c := leased.find(key)
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.holds[id].until - leased.store.clock())
}
