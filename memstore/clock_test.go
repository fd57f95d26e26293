package memstore

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestClockFollowsMonotonicClock reads both clocks for a while. A reading must be
// between two readings of the monotonic clock. It may deviate by 1 µs of rounding and
// by the variation of the tick rate within a millisecond. One reading in a thousand may
// deviate more, because the goroutine was descheduled.
func TestClockFollowsMonotonicClock(t *testing.T) {
	var c clock
	c.init()
	const readings, tolerance = 300_000, 5
	off, worst := 0, int64(0)
	for range readings {
		before := c.monotonic() / 1000
		got := c.micros()
		after := c.monotonic() / 1000
		if miss := max(before-got, got-after); miss > tolerance {
			off++
			worst = max(worst, miss)
		}
	}
	if off > readings/1000 || worst > 1_000_000 {
		t.Errorf("readings more than %d µs from the monotonic clock: got %d of %d, the worst by %d µs", tolerance, off, readings, worst)
	}
	if hasTicks && c.validTicks.Load() == 0 {
		t.Log("the tick counter of this machine is not used")
	}
}

func TestClockConcurrentReads(t *testing.T) {
	var c clock
	c.init()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50_000 {
				before := c.monotonic() / 1000
				got := c.micros()
				after := c.monotonic() / 1000
				if got < before-1_000_000 || got > after+1_000_000 {
					t.Errorf("clock: got %d want %d to %d, give or take a second", got, before, after)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestClockInSynctestBubble checks that time advances only when all goroutines of the
// bubble are blocked.
func TestClockInSynctestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init()
		for range 100 {
			before := c.micros()
			for range 1000 {
				if got := c.micros(); got != before {
					t.Fatalf("time passed in a bubble without a sleep: %d µs", got-before)
				}
			}
			time.Sleep(time.Millisecond)
			if got := c.micros(); got != before+1000 {
				t.Fatalf("after a sleep of 1 ms: got %d µs more want 1000", got-before)
			}
		}
	})
}

func TestClockRejectsImplausibleTickRate(t *testing.T) {
	for _, scale := range []uint64{0, 1, minScale - 1, maxScale + 1, 1 << 60} {
		var c clock
		if c.setScale(scale); c.validTicks.Load() != 0 {
			t.Errorf("validTicks at a rate of %d/2^32 ns per tick: got %d want 0", scale, c.validTicks.Load())
		}
	}
	var c clock
	if c.setScale(1 << 31); c.validTicks.Load() != 2_000_000 {
		t.Errorf("validTicks at half a nanosecond per tick: got %d want 2000000, a millisecond", c.validTicks.Load())
	}
}
