package storetest

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// Values at which arithmetic often goes wrong: the minimum and the maximum, primes,
// powers of two and of ten, and values next to these.
var (
	boundaryUnits   = []int64{1, 2, 3, 7, 10, 11, 60, 97, 1_000, 1_023, 65_536, 700_000, 999_983, 1 << 20, 999_999_937, 999_999_999, headgate.MaxUnits}
	boundaryPeriods = []time.Duration{
		headgate.MinPeriod, 1_001 * time.Microsecond, 999_983 * time.Microsecond, time.Second, 7 * time.Second, time.Minute,
		time.Hour, 24 * time.Hour, 31 * 24 * time.Hour, headgate.MaxPeriod - time.Microsecond, headgate.MaxPeriod,
	}
)

// randomLimit returns a random limit that is valid for the algorithm a. Small limits
// are more frequent, because random requests reach them more often.
func randomLimit(r *rand.Rand, a headgate.Algorithm) headgate.Limit {
	if a.OnlyHolds() {
		return headgate.Limit{Rate: randomUnits(r), Concurrent: true}
	}
	for {
		l := headgate.Limit{Rate: randomUnits(r), Period: randomPeriod(r)}
		if most := a.MaxRate(); most > headgate.MaxUnits && r.IntN(3) == 0 {
			l.Rate = randomLargeRate(r, most)
		}
		if a.HasCalendar() && r.IntN(3) > 0 {
			l.Period, l.Calendar = 0, randomCalendar(r)
		}
		if a.Queues() && r.IntN(2) == 0 {
			l.Queue = randomUnits(r)
		} else if !a.Windowed() && r.IntN(3) > 0 {
			l.Burst = randomUnits(r)
		}
		if validFor(a, l) {
			return l
		}
	}
}

// validFor reports whether the limit l is valid for the algorithm a. An algorithm that
// refills in steps needs whole intervals to fill, so its fill time is rounded up.
func validFor(a headgate.Algorithm, l headgate.Limit) bool {
	if l.Validate() != nil {
		return false
	}
	intervals := (l.Capacity() + l.Rate - 1) / l.Rate
	return a.Refill() != headgate.RefillStepped || intervals <= int64(headgate.MaxFillTime/l.Period)
}

// zones have changes of the clock that often go wrong: gaps at midnight, a skipped day,
// changes of half an hour and of two hours, and differences from UTC of parts of an hour.
var zones = []string{
	"", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Pacific/Apia", "Australia/Lord_Howe", "Antarctica/Troll", "Asia/Kathmandu",
}

func randomCalendar(r *rand.Rand) headgate.Calendar {
	c := headgate.Calendar{Unit: headgate.CalendarHour + headgate.CalendarUnit(r.IntN(6)), Zone: zones[r.IntN(len(zones))]}
	switch c.Unit {
	case headgate.CalendarDay:
		c.From = r.IntN(24 * 60)
	case headgate.CalendarWeek:
		c.From = r.IntN(7)
	case headgate.CalendarMonth:
		c.From = r.IntN(31)
	}
	return c
}

// lengths has about the length of each unit of the calendar, in days.
var lengths = [...]int64{headgate.CalendarDay: 1, headgate.CalendarWeek: 7, headgate.CalendarMonth: 30, headgate.CalendarQuarter: 91, headgate.CalendarYear: 365}

// periodOf returns the period of a limit in µs, or about the length of a window of its
// calendar.
func periodOf(l headgate.Limit) int64 {
	switch c := l.Calendar.Unit; {
	case l.Period > 0:
		return l.Period.Microseconds()
	case l.Concurrent: // a time in which holds begin and end
		return time.Minute.Microseconds()
	case c == headgate.CalendarHour:
		return time.Hour.Microseconds()
	default:
		return lengths[c] * 24 * time.Hour.Microseconds()
	}
}

func randomUnits(r *rand.Rand) int64 {
	switch r.IntN(4) {
	case 0:
		return logUniform(r, headgate.MaxUnits)
	case 1:
		return boundaryUnits[r.IntN(len(boundaryUnits))]
	default:
		return 1 + r.Int64N(12)
	}
}

// randomLargeRate returns a rate above MaxUnits, up to most. Rates next to powers of two
// are frequent, because stores divide a count into parts.
func randomLargeRate(r *rand.Rand, most int64) int64 {
	switch r.IntN(3) {
	case 0:
		return most - r.Int64N(3)
	case 1:
		return 1<<(30+r.IntN(23)) + r.Int64N(3) - 1
	default:
		return logUniform(r, most)
	}
}

func randomPeriod(r *rand.Rand) time.Duration {
	shortest := headgate.MinPeriod.Microseconds()
	switch r.IntN(4) {
	case 0:
		return micros.Duration(shortest - 1 + logUniform(r, headgate.MaxPeriod.Microseconds()-shortest+1))
	case 1:
		return boundaryPeriods[r.IntN(len(boundaryPeriods))]
	default:
		return micros.Duration(shortest + r.Int64N(30_000))
	}
}

// logUniform returns a random number from 1 to limit. Every order of magnitude is
// equally likely.
func logUniform(r *rand.Rand, limit int64) int64 {
	return min(limit, max(1, int64(math.Exp(r.Float64()*math.Log(float64(limit))))))
}
