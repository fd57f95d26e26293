package memstore

import (
	"sync/atomic"
	"time"
)

// clock returns the wall clock time at its creation plus the monotonic time that has
// passed since then, in nanoseconds. It reads the monotonic clock at most once a
// millisecond and uses the processor's tick counter in between. Reading the monotonic
// clock costs as much as the rest of a decision and waits for every earlier memory
// access. Reading the tick counter costs a third of that and overlaps with memory
// accesses.
//
// The measured tick rate is used for one millisecond, and only if the rate was steady
// and plausible in the interval before. The clock can therefore deviate from the
// monotonic clock by at most one millisecond. If the tick counter has a constant rate,
// as on any processor of the last ten years, the deviation is nanoseconds.
type clock struct {
	start     time.Time
	startNano int64

	sequence   atomic.Uint64 // odd while a goroutine writes the fields below
	nano       atomic.Int64  // nanoseconds since the Unix epoch at the last calibration
	tick       atomic.Uint64 // the tick counter at the last calibration
	scale      atomic.Uint64 // nanoseconds per tick, times 2^32
	validTicks atomic.Uint64 // scale applies to this number of ticks after tick; 0 if the tick rate is not known
}

const (
	calibrateEvery = int64(time.Millisecond)

	// The tick rate is measured over an interval whose length is within these bounds.
	minCalibration, maxCalibration = int64(200 * time.Microsecond), int64(time.Second)
	// A plausible rate is 0.05 to 100 ns per tick.
	minScale, maxScale = 1 << 32 / 20, 100 << 32
)

func (c *clock) init() {
	c.start = time.Now()
	c.startNano = c.start.UnixNano()
	// In a testing/synctest bubble, time begins in the year 2000 and stands still while
	// the processor's ticks go on. An odd sequence makes every call read the monotonic
	// clock.
	if c.start.Year() < 2001 || !hasTicks {
		c.sequence.Store(1)
	}
}

// micros returns the current time in µs since the Unix epoch.
func (c *clock) micros() int64 {
	sequence := c.sequence.Load()
	nano, tick, scale, span := c.nano.Load(), c.tick.Load(), c.scale.Load(), c.validTicks.Load()
	since := ticks() - tick
	if since >= span || sequence&1 != 0 || c.sequence.Load() != sequence {
		return c.calibrate(sequence) / 1000
	}
	return (nano + int64(since*scale>>32)) / 1000
}

// calibrate reads the monotonic clock and returns its time in nanoseconds since the
// Unix epoch. If no other goroutine is calibrating, it also measures the tick rate
// since the last calibration.
func (c *clock) calibrate(sequence uint64) int64 {
	if sequence&1 != 0 || !c.sequence.CompareAndSwap(sequence, sequence+1) {
		return c.monotonic()
	}
	before := ticks()
	now := c.monotonic()
	after := ticks()
	passed, counted := now-c.nano.Load(), after-c.tick.Load()
	switch {
	// The goroutine was descheduled between the two readings of the tick counter.
	case (after-before)*64 >= min(counted, max(c.validTicks.Load(), 1<<20)):
		c.validTicks.Store(0)
		c.sequence.Store(sequence)
		return now
	case passed >= minCalibration && passed <= maxCalibration:
		c.setScale(uint64(passed) << 32 / counted)
	case passed < minCalibration:
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
	if scale < minScale || scale > maxScale {
		c.validTicks.Store(0)
		return
	}
	c.validTicks.Store(uint64(calibrateEvery) << 32 / scale)
}

func (c *clock) monotonic() int64 { return c.startNano + int64(time.Since(c.start)) }
