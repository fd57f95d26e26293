package memstore

import (
	"sync/atomic"
	"time"
)

// clock is the wall clock at its making plus the monotonic clock since, in nanoseconds. Between two looks at the monotonic clock,
// at most a millisecond apart, it counts the processor's ticks: reading the clock costs as much as the rest of a decision, and
// waits for every memory access before it, while a tick counter costs a third and lets them overlap.
//
// The ticks are only trusted for that millisecond, at the rate they had before it, and where they run steadily at a plausible
// rate. So the clock is never further from the monotonic one than that, and by nanoseconds where the counter is good, as it is
// on any processor of the last ten years.
type clock struct {
	began     time.Time
	beganNano int64

	sequence atomic.Uint64 // odd while the fields below are written
	nano     atomic.Int64  // the clock at the last look
	tick     atomic.Uint64 // the counter then
	scale    atomic.Uint64 // nanoseconds a tick, times 2^32
	span     atomic.Uint64 // the ticks for which this holds; 0 while the rate is not known
}

const (
	lookEvery = int64(time.Millisecond)
	// The rate is taken over at least and at most so long.
	shortestLook, longestLook = int64(200 * time.Microsecond), int64(time.Second)
	// Plausible are 0.05 to 100 ns a tick.
	leastScale, mostScale = 1 << 32 / 20, 100 << 32
)

func (c *clock) start() {
	c.began = time.Now()
	c.beganNano = c.began.UnixNano()
	// In a bubble of testing/synctest time begins in the year 2000, and stands still while the ticks go on.
	if c.began.Year() < 2001 || !hasTicks {
		c.sequence.Store(1)
	}
}

// micros is the present in µs since the epoch.
func (c *clock) micros() int64 {
	sequence := c.sequence.Load()
	nano, tick, scale, span := c.nano.Load(), c.tick.Load(), c.scale.Load(), c.span.Load()
	since := ticks() - tick
	if since >= span || sequence&1 != 0 || c.sequence.Load() != sequence {
		return c.look(sequence) / 1000
	}
	return (nano + int64(since*scale>>32)) / 1000
}

// look reads the monotonic clock and, if nobody else does, the rate of the ticks since the last look.
func (c *clock) look(sequence uint64) int64 {
	if sequence&1 != 0 || !c.sequence.CompareAndSwap(sequence, sequence+1) {
		return c.monotonic()
	}
	before := ticks()
	now := c.monotonic()
	after := ticks()
	passed, counted := now-c.nano.Load(), after-c.tick.Load()
	switch {
	case (after-before)*64 >= min(counted, max(c.span.Load(), 1<<20)): // taken off the processor between two readings
		c.span.Store(0)
		c.sequence.Store(sequence)
		return now
	case passed >= shortestLook && passed <= longestLook:
		c.setScale(uint64(passed) << 32 / counted)
	case passed < shortestLook:
		c.sequence.Store(sequence)
		return now
	}
	c.nano.Store(now)
	c.tick.Store(after)
	c.sequence.Store(sequence + 2)
	return now
}

func (c *clock) setScale(scale uint64) {
	c.scale.Store(scale)
	if scale < leastScale || scale > mostScale {
		c.span.Store(0)
		return
	}
	c.span.Store(uint64(lookEvery) << 32 / scale)
}

func (c *clock) monotonic() int64 { return c.beganNano + int64(time.Since(c.began)) }
