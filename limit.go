package headgate

import (
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

// The accepted range of limits and times is the same in every algorithm and store.
// Within this range every decision is exact, even in the double-precision numbers of
// Lua, because no instant exceeds 2^53 µs.
const (
	MaxUnits = 1_000_000_000 // maximum of rate, burst and queue, in units
	// MaxWindowUnits is the maximum of the rate under [FixedWindow] and [CalendarWindow];
	// see [Algorithm.MaxRate]. It is large enough for tokens and for millionths of a
	// dollar.
	MaxWindowUnits = 1<<53 - 1

	MinPeriod = time.Millisecond     // shortest period
	MaxPeriod = 366 * 24 * time.Hour // longest period
	// MaxFillTime is the maximum time in which an empty bucket may fill: 100 years of
	// 365.25 days.
	MaxFillTime = 36525 * 24 * time.Hour
	maxFillUS   = int64(MaxFillTime / 1000)      // MaxFillTime in µs
	MaxInstant  = Instant(1<<53 - 1 - maxFillUS) // latest accepted instant, in the year 2155
)

// Limit is a rate: Rate units per Period, with an optional capacity for bursts. As text
// it is written “10/s”, “100/1m burst 20” or “100/1m queue 50”; see [ParseLimit].
type Limit struct {
	// Rate is the number of units granted per Period: 1 to 1e9, or to 2^53 − 1 under
	// [FixedWindow] and [CalendarWindow]. Formulas call it L.
	Rate int64
	// Period is the time in which Rate units are granted: whole microseconds, from 1 ms
	// to 366 days. Formulas call it P.
	Period time.Duration
	// Burst is the capacity of a bucket in units: 1 to 1e9, or 0 for a capacity of
	// Rate. Burst must be 0 for an algorithm that counts in windows.
	Burst int64
	// Queue is the number of units that may wait in a leaky bucket: 1 to 1e9. The
	// capacity of the bucket is then Queue + 1 and Burst must be 0. If Queue is 0,
	// Burst sets the capacity. Queue must be 0 for all other algorithms.
	Queue int64
	// Calendar is used in place of Period under [CalendarWindow]: windows of the
	// calendar, as in “500/day in Europe/Berlin”. Period, Burst and Queue must then be
	// 0, except for “10000/week”, which has both; see [Calendar].
	Calendar Calendar
	// Concurrent is true for a limit under [Concurrency], as in “16 concurrent”: Rate is
	// then the number of slots that may be taken at the same time, up to 1e9, and all
	// other fields must be 0.
	Concurrent bool

	kind limitKind // set by [Unlimited] and [Blocked]
}

// Capacity returns B, the maximum number of units that a bucket with this limit
// contains.
func (l Limit) Capacity() int64 {
	switch {
	case l.kind == unlimited:
		return MaxWindowUnits
	case l.Queue > 0:
		return l.Queue + 1
	case l.Burst > 0:
		return l.Burst
	default:
		return l.Rate
	}
}

// Validate returns a [*LimitError] for the first field outside the accepted range, or
// nil. It does not check whether an algorithm accepts a rate above [MaxUnits] or uses a
// burst or a queue: the store does. [Unlimited] and [Blocked] are valid only in a policy.
func (l Limit) Validate() error {
	if l.isUncounted() {
		return l.errUncountedLimit()
	}
	if err := l.validateRate(); err != nil {
		return err
	}
	if l.Concurrent {
		return l.validateConcurrent()
	}
	if l.Calendar != (Calendar{}) {
		if err := l.validateCalendar(); err != nil || l.Period == 0 {
			return err
		}
	}
	if l.Period < MinPeriod || l.Period > MaxPeriod {
		return &LimitError{"period", l.Period.String(), acceptedPeriods}
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

// validateConcurrent returns an error for a limit of concurrent units that has fields of
// a rate.
func (l Limit) validateConcurrent() error {
	if l != (Limit{Rate: l.Rate, Concurrent: true}) {
		return &LimitError{"limit", l.String(), "must have no period, burst, queue or calendar"}
	}
	return inRange("rate", l.Rate, 1)
}

// validateRate accepts a rate above MaxUnits only without a burst or a queue, because all
// algorithms that accept such a rate count in windows.
func (l Limit) validateRate() error {
	onlyCalendar := l.isOnlyCalendar()
	switch {
	case l.Burst != 0 || l.Queue != 0 || l.Rate <= MaxUnits && !onlyCalendar:
		return inRange("rate", l.Rate, 1)
	case onlyCalendar && (l.Rate < 1 || l.Rate > MaxWindowUnits):
		return &LimitError{"rate", strconv.FormatInt(l.Rate, 10), fmt.Sprintf("must be 1 to %d", int64(MaxWindowUnits))}
	case l.Rate > MaxWindowUnits:
		return &LimitError{"rate", strconv.FormatInt(l.Rate, 10), largeRateBound}
	}
	return nil
}

// largeRateBound is the bound in the error for a rate above MaxWindowUnits.
const largeRateBound = "must be 1 to 1000000000, or to 9007199254740991 under fixed_window and calendar_window"

func inRange(field string, value, least int64) error {
	if value < least || value > MaxUnits {
		return &LimitError{field, strconv.FormatInt(value, 10), fmt.Sprintf("must be %d to 1000000000", least)}
	}
	return nil
}

// validateFillTime returns an error if the fill time, capacity·period/rate, is above
// MaxFillTime. The comparison is exact.
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
