package headgate

import (
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

// The accepted domain, the same in every algorithm and store. Inside it every decision is exact, also in the doubles of Lua:
// no instant passes 2^53 µs.
const (
	MaxUnits    = 1_000_000_000                  // the largest rate, burst and queue, in units
	MinPeriod   = time.Millisecond               // the shortest period
	MaxPeriod   = 366 * 24 * time.Hour           // the longest period
	MaxFillTime = 36525 * 24 * time.Hour         // the longest time to fill an empty bucket: 100 years of 365.25 days
	maxFillUS   = int64(MaxFillTime / 1000)      // the same in µs
	MaxInstant  = Instant(1<<53 - 1 - maxFillUS) // the latest instant that is accepted, in the year 2155
)

// Limit is how much may happen how often: Rate units in each Period, with a capacity for bursts. It is written
// “10/s”, “100/1m burst 20”, “100/1m queue 50”; see [ParseLimit].
type Limit struct {
	// Rate is L, the units granted per Period: 1 to 1e9.
	Rate int64
	// Period is P: whole microseconds from 1 ms to 366 days.
	Period time.Duration
	// Burst is the capacity B of a bucket, in units: 1 to 1e9; 0 means Rate. Windows do not use it.
	Burst int64
	// Queue is how many units may wait in a leaky bucket, 1 to 1e9; its capacity is then Queue + 1. 0 means that the capacity is
	// Burst. Only the leaky bucket takes it, and not together with Burst.
	Queue int64
}

// Capacity is B, the most that a bucket under this limit holds, in units.
func (l Limit) Capacity() int64 {
	switch {
	case l.Queue > 0:
		return l.Queue + 1
	case l.Burst > 0:
		return l.Burst
	default:
		return l.Rate
	}
}

// Validate reports the first field outside the accepted domain as a [*LimitError], or nil.
func (l Limit) Validate() error {
	if err := inRange("rate", l.Rate, 1); err != nil {
		return err
	}
	if l.Period < MinPeriod || l.Period > MaxPeriod {
		return &LimitError{"period", l.Period.String(), "accepted are 1ms to 366 days (8784h)"}
	}
	if l.Period%time.Microsecond != 0 {
		return &LimitError{"period", l.Period.String(), "accepted are whole microseconds"}
	}
	if err := inRange("burst", l.Burst, 0); err != nil {
		return err
	}
	if err := inRange("queue", l.Queue, 0); err != nil {
		return err
	}
	if l.Burst > 0 && l.Queue > 0 {
		return &LimitError{"queue", strconv.FormatInt(l.Queue, 10), "accepted without a burst: the queue is the capacity"}
	}
	return l.validateFillTime()
}

func inRange(field string, value, least int64) error {
	if value < least || value > MaxUnits {
		return &LimitError{field, strconv.FormatInt(value, 10), fmt.Sprintf("accepted are %d to 1000000000", least)}
	}
	return nil
}

// validateFillTime refuses B·P/L above MaxFillTime, compared exactly.
func (l Limit) validateFillTime() error {
	needHi, needLo := bits.Mul64(uint64(l.Capacity()), uint64(l.Period/time.Microsecond))
	haveHi, haveLo := bits.Mul64(uint64(maxFillUS), uint64(l.Rate))
	if needHi < haveHi || needHi == haveHi && needLo <= haveLo {
		return nil
	}
	return &LimitError{
		"fill time", fmt.Sprintf("%d·%s/%d", l.Capacity(), formatPeriod(l.Period), l.Rate),
		"accepted are at most 100 years for capacity·period/rate",
	}
}
