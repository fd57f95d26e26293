package crowd

import (
	"testing"
	"time"
)

// A hold is not counted after the deadline that its store has reported. A later deadline
// does not count: the store may have measured it by another clock.
func TestHoldIsCountedUntilReportedDeadline(t *testing.T) {
	before := time.Now()
	for name, c := range map[string]struct{ deadline, want time.Duration }{
		"the store decides later":             {310 * time.Millisecond, 300 * time.Millisecond},
		"the slots in memory end before":      {120 * time.Millisecond, 120 * time.Millisecond},
		"the slots have ended already":        {-time.Millisecond, -time.Millisecond},
		"the store's clock has not advanced":  {300 * time.Millisecond, 300 * time.Millisecond},
		"the clock of the store is far ahead": {time.Hour, 300 * time.Millisecond},
	} {
		if got := certainlyUntil(before, 300*time.Millisecond, before.Add(c.deadline)).Sub(before); got != c.want {
			t.Errorf("%s: counted for %v, want %v", name, got, c.want)
		}
	}
}
