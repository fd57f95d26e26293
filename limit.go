package headgate

import (
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

// The accepted domain, the same in every algorithm and store. Inside it every decision
// is exact, even in the double-precision numbers of Lua: no instant exceeds 2^53 µs.
const (
	MaxUnits  = 1_000_000_000        // largest rate, burst and queue, in units
	MinPeriod = time.Millisecond     // shortest period
	MaxPeriod = 366 * 24 * time.Hour // longest period
	// MaxFillTime is the longest time to fill an empty bucket: 100 years of 365.25 days.
	MaxFillTime = 36525 * 24 * time.Hour
	maxFillUS   = int64(MaxFillTime / 1000)      // MaxFillTime in µs
	MaxInstant  = Instant(1<<53 - 1 - maxFillUS) // latest accepted instant, in the year 2155
)

// Limit is a rate: Rate units per Period, with a capacity for bursts. Its text is
// "10/s", "100/1m burst 20" or "100/1m queue 50"; see [ParseLimit].
type Limit struct {
	// Rate is L, the units granted per Period: 1 to 1e9.
	Rate int64
	// Period is P: whole microseconds from 1 ms to 366 days.
	Period time.Duration
	// Burst is the capacity B of a bucket, in units: 1 to 1e9. 0 means Rate. A window
	// has no burst: it must be 0.
	Burst int64
	// Queue is the number of units that may wait in a leaky bucket, 1 to 1e9. The
	// capacity is then Queue + 1. 0 means that the capacity is Burst. Only the leaky
	// bucket has a queue, and Burst must then be 0.
	Queue int64
}

// Capacity returns B, the most units that a bucket with this limit contains.
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

// Validate returns a [*LimitError] for the first field outside the accepted domain, or
// nil. Whether an algorithm uses a burst or a queue is checked by the store.
func (l Limit) Validate() error {
	if err := inRange("rate", l.Rate, 1); err != nil {
		return err
	}
	if l.Period < MinPeriod || l.Period > MaxPeriod {
		return &LimitError{"period", l.Period.String(), "must be 1ms to 366 days (8784h)"}
	}
	if l.Period%time.Microsecond != 0 {
		return &LimitError{"period", l.Period.String(), "must be a whole number of microseconds"}
	}
	if err := inRange("burst", l.Burst, 0); err != nil {
		return err
	}
	if err := inRange("queue", l.Queue, 0); err != nil {
		return err
	}
	if l.Burst > 0 && l.Queue > 0 {
		return &LimitError{"queue", strconv.FormatInt(l.Queue, 10), "must be 0 if there is a burst: the queue sets the capacity"}
	}
	return l.validateFillTime()
}

func inRange(field string, value, least int64) error {
	if value < least || value > MaxUnits {
		return &LimitError{field, strconv.FormatInt(value, 10), fmt.Sprintf("must be %d to 1000000000", least)}
	}
	return nil
}

// validateFillTime returns an error if B·P/L is above MaxFillTime. The comparison is
// exact.
func (l Limit) validateFillTime() error {
	needHi, needLo := bits.Mul64(uint64(l.Capacity()), uint64(l.Period/time.Microsecond))
	haveHi, haveLo := bits.Mul64(uint64(maxFillUS), uint64(l.Rate))
	if needHi < haveHi || needHi == haveHi && needLo <= haveLo {
		return nil
	}
	return &LimitError{
		"fill time", fmt.Sprintf("%d·%s/%d", l.Capacity(), formatPeriod(l.Period), l.Rate),
		"must be at most 100 years; it is capacity·period/rate",
	}
}
