package memstore

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestClockKeepsToTheMonotonicOne reads both for a while. A reading of ours lies between two of the other, but for a microsecond
// of rounding and what the counter's rate wavers in a millisecond; one in a thousand may be off, by a goroutine that was stopped.
func TestClockKeepsToTheMonotonicOne(t *testing.T) {
	var c clock
	c.start()
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
		t.Errorf("readings further than %d µs from the monotonic clock: got %d of %d, the worst by %d µs", tolerance, off, readings, worst)
	}
	if hasTicks && c.span.Load() == 0 {
		t.Log("the ticks of this machine are not used")
	}
}

func TestClockIsSafeForManyGoroutines(t *testing.T) {
	var c clock
	c.start()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50_000 {
				now := time.Now().UnixMicro()
				if got := c.micros(); got < now-1_000_000 || got > now+1_000_000 {
					t.Errorf("clock: got %d want about %d", got, now)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestClockIsThatOfTheBubble: under testing/synctest time moves only when all goroutines wait.
func TestClockIsThatOfTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.start()
		for range 100 {
			before := c.micros()
			for range 1000 {
				if got := c.micros(); got != before {
					t.Fatalf("time passed in a bubble where nobody slept: %d µs", got-before)
				}
			}
			time.Sleep(time.Millisecond)
			if got := c.micros(); got != before+1000 {
				t.Fatalf("after a sleep of 1 ms: got %d µs more want 1000", got-before)
			}
		}
	})
}

func TestClockDoesNotTrustAnImplausibleRate(t *testing.T) {
	for _, scale := range []uint64{0, 1, leastScale - 1, mostScale + 1, 1 << 60} {
		var c clock
		if c.setScale(scale); c.span.Load() != 0 {
			t.Errorf("span at a rate of %d/2^32 ns a tick: got %d want 0", scale, c.span.Load())
		}
	}
	var c clock
	if c.setScale(1 << 31); c.span.Load() != 2_000_000 {
		t.Errorf("span at half a nanosecond a tick: got %d want 2000000, a millisecond", c.span.Load())
	}
}
