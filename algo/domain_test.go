package algo_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

const (
	maxInstant  = int64(headgate.MaxInstant)
	maxExact    = 1<<53 - 1
	hundredYear = int64(headgate.MaxFillTime / time.Microsecond)
	year2026    = int64(1_767_225_600_000_000)
)

// generator draws random values from the whole accepted range. It draws the bounds of
// the range more often than a uniform distribution.
type generator struct{ *rand.Rand }

func newGenerator(seed, stream uint64) generator {
	return generator{rand.New(rand.NewPCG(seed, stream))}
}

func (d generator) oneIn(n int) bool { return d.IntN(n) == 0 }

// upTo returns a uniform number from 0 to most.
func (d generator) upTo(most int64) int64 { return d.Int64N(most + 1) }

// scaled returns a whole number from least to most. Each order of magnitude is equally
// likely.
func (d generator) scaled(least, most int64) int64 {
	low, high := math.Log(float64(least)), math.Log(float64(most)+1)
	return min(most, max(least, int64(math.Exp(low+d.Float64()*(high-low)))))
}

func pick[T any](d generator, of ...T) T { return of[d.IntN(len(of))] }

// units returns a rate, burst or queue.
func (d generator) units() int64 {
	switch d.IntN(4) {
	case 0:
		return pick[int64](d, 1, 2, 3, 7, 10, 300, 999_999_937, headgate.MaxUnits-1, headgate.MaxUnits)
	case 1:
		return min(headgate.MaxUnits, int64(1)<<d.IntN(30)+d.Int64N(2))
	default:
		return d.scaled(1, headgate.MaxUnits)
	}
}

// rate returns a rate without a burst or a queue: up to the maximum of the algorithm.
func (d generator) rate(a algo.Algorithm) int64 {
	most := a.Name.MaxRate()
	switch {
	case most == headgate.MaxUnits || d.oneIn(3):
		return d.units()
	case d.oneIn(3):
		return pick(d, headgate.MaxUnits+1, 1<<30-1, 1<<30, 1<<30+1, 1<<31, 1<<52, most-1, most)
	default:
		return d.scaled(headgate.MaxUnits, most)
	}
}

// period returns whole µs from 1 ms to 366 days; often a prime number of µs or of ms.
func (d generator) period() time.Duration {
	least, most := headgate.MinPeriod, headgate.MaxPeriod
	switch d.IntN(5) {
	case 0:
		return pick(d, least, 999*time.Millisecond, time.Second, 1001*time.Millisecond, time.Minute, time.Hour, 24*time.Hour, most)
	case 1:
		return time.Duration(d.primeBelow(most.Milliseconds())) * time.Millisecond
	case 2:
		return time.Duration(max(1009, d.primeBelow(most.Microseconds()))) * time.Microsecond
	default:
		return time.Duration(d.scaled(least.Microseconds(), most.Microseconds())) * time.Microsecond
	}
}

// primeBelow returns an odd prime up to most.
func (d generator) primeBelow(most int64) int64 {
	for n := d.scaled(3, most) | 1; n <= most; n += 2 {
		if big.NewInt(n).ProbablyPrime(0) { // exact below 2^64
			return n
		}
	}
	return 3
}

// edgeLimits are limits that take exactly 100 years to fill or are at the bounds of the
// accepted range.
var edgeLimits = []headgate.Limit{
	{Rate: 1, Period: 3_155_760 * time.Microsecond, Burst: headgate.MaxUnits},
	{Rate: 1, Period: 24 * time.Hour, Burst: 36525},
	{Rate: 2, Period: 48 * time.Hour, Burst: 36525},
	{Rate: 1, Period: headgate.MaxPeriod, Burst: 99},
	{Rate: 1, Period: headgate.MaxPeriod},
	{Rate: 1, Period: headgate.MinPeriod},
	{Rate: headgate.MaxUnits, Period: headgate.MinPeriod},
	{Rate: headgate.MaxUnits, Period: headgate.MaxPeriod},
	{Rate: headgate.MaxUnits, Period: headgate.MaxPeriod, Burst: 1},
	{Rate: headgate.MaxUnits, Period: headgate.MinPeriod, Burst: 1},
	{Rate: 999_999_937, Period: 31_622_399_999_981 * time.Microsecond, Burst: headgate.MaxUnits},
	{Rate: 300, Period: time.Second},
	{Rate: 7, Period: time.Second},
	{Rate: headgate.MaxUnits, Period: time.Second},
}

// limit returns a limit that the algorithm accepts. If the burst would take longer than
// 100 years to fill, it often returns the largest burst that does not.
func (d generator) limit(a algo.Algorithm) headgate.Limit {
	if a.Name.OnlyHolds() {
		return headgate.Limit{Rate: d.units(), Concurrent: true}
	}
	for {
		l := headgate.Limit{Rate: d.units(), Period: d.period()}
		switch {
		case d.oneIn(20):
			l = pick(d, edgeLimits...)
		case d.oneIn(3):
			l.Rate = d.rate(a)
		case a.Name.Queues() && d.oneIn(2):
			l.Queue = d.units()
		default:
			l.Burst = d.units()
		}
		if a.Name.HasCalendar() && d.oneIn(2) {
			l = headgate.Limit{Rate: d.rate(a), Calendar: d.calendar()}
		} else if l.Queue == 0 && l.Validate() != nil {
			most := new(big.Int).Mul(big.NewInt(hundredYear), big.NewInt(l.Rate))
			l.Burst = max(1, most.Div(most, big.NewInt(l.Period.Microseconds())).Int64())
		}
		if accepts(a, l) {
			return l
		}
	}
}

// calendar returns a calendar in a zone whose clock changes often go wrong.
func (d generator) calendar() headgate.Calendar {
	c := headgate.Calendar{
		Unit: headgate.CalendarHour + headgate.CalendarUnit(d.IntN(6)),
		Zone: pick(d, "", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Australia/Lord_Howe", "Antarctica/Troll"),
	}
	if most := [...]int64{headgate.CalendarDay: 1439, headgate.CalendarWeek: 6, headgate.CalendarMonth: 30}; int(c.Unit) < len(most) {
		c.From = int(d.upTo(most[c.Unit]))
	}
	return c
}

// windowOf returns the period of a limit in µs, or a day for a limit with a calendar.
func windowOf(l headgate.Limit) int64 {
	if l.Period == 0 {
		return 86_400_000_000
	}
	return l.Period.Microseconds()
}

func accepts(a algo.Algorithm, l headgate.Limit) bool {
	if a.New != nil {
		_, err := a.New(l)
		return err == nil
	}
	_, err := a.NewLog(l)
	return err == nil
}

// changed returns a limit that replaces l on a key with state. It often differs from l in
// one number only.
func (d generator) changed(a algo.Algorithm, l headgate.Limit) headgate.Limit {
	for range 20 {
		c := l
		switch d.IntN(4) {
		case 0:
			return d.limit(a)
		case 1:
			c.Rate = d.rate(a)
		case 2:
			if l.Period == 0 {
				c.Calendar = d.calendar()
				break
			}
			c.Period = time.Duration(d.scaled(max(1000, l.Period.Microseconds()/3), min(headgate.MaxPeriod, 3*l.Period).Microseconds())) * time.Microsecond
		default:
			c.Burst, c.Queue = d.units(), 0
		}
		if accepts(a, c) {
			return c
		}
	}
	return d.limit(a)
}

// cost returns a cost for a request under a limit with capacity most, of which left
// units remain.
func (d generator) cost(most, left int64) int64 {
	switch d.IntN(12) {
	case 0, 1:
		return d.upTo(1)
	case 2, 3:
		return left
	case 4:
		return left + 1
	case 5:
		return max(0, left-1)
	case 6:
		return max(0, most+d.upTo(2)-1) // at most 2^53, the maximum that Lua accepts
	case 7:
		return pick(d, min(most+d.scaled(1, headgate.MaxUnits), maxExact+1), headgate.MaxUnits, math.MaxInt32)
	default:
		return d.scaled(1, max(1, most))
	}
}

// instant returns the time of a key's first request.
func (d generator) instant() int64 {
	switch d.IntN(5) {
	case 0:
		return pick[int64](d, 0, 1, maxInstant-1, maxInstant)
	case 1:
		return d.scaled(1, maxInstant)
	case 2:
		return d.upTo(maxInstant)
	default:
		return year2026 + d.upTo(1e15)
	}
}

// after returns the time of the next step after a step at t with the decision last: near
// the times in the decision, much later, or earlier.
func (d generator) after(t int64, l headgate.Limit, last headgate.Decision) int64 {
	next := t
	switch d.IntN(16) {
	case 0, 1, 2:
		// the same time
	case 3, 4:
		next += last.RetryAfter.Microseconds() - d.upTo(1)
	case 5:
		next += last.ResetAfter.Microseconds() - d.upTo(1)
	case 6:
		next -= d.scaled(1, maxInstant)
	case 7:
		next -= d.upTo(windowOf(l))
	case 8:
		next = d.instant()
	case 9:
		next += windowOf(l) - next%windowOf(l) - d.upTo(1)
	case 10, 11:
		next += d.scaled(1, 3*windowOf(l))
	case 12:
		next += d.scaled(1, 1e15)
	default:
		next += d.scaled(1, max(1, last.ResetAfter.Microseconds()))
	}
	return min(maxInstant, max(0, next))
}
