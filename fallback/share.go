package fallback

import (
	"math/bits"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

const (
	maxInstances = 100_000
	maxPeriod    = int64(headgate.MaxPeriod / time.Microsecond)
	maxFill      = int64(headgate.MaxFillTime / time.Microsecond)
)

// share returns the part of a limit that one of n instances grants. All instances
// together do not exceed the limit, as far as whole units permit; see
// [Options].Instances. The limit must be valid; the result is valid.
func share(a headgate.Algorithm, l headgate.Limit, n int64) headgate.Limit {
	if n == 1 {
		return l
	}
	if l.Calendar.Unit != 0 || l.Concurrent {
		l.Rate = max(1, l.Rate/n) // without a period, or with one that cannot be longer
		return l
	}
	capacity := max(1, l.Capacity()/n)
	switch a.Refill() {
	case headgate.RefillContinuous:
		rate, period := dividedRate(l, n)
		return headgate.Limit{Rate: rate, Period: micros.Duration(period), Burst: min(capacity, mulDiv(maxFill, rate, period))}
	case headgate.RefillWindow:
		rate, period := steppedRate(l, n)
		return headgate.Limit{Rate: rate, Period: micros.Duration(period)}
	default: // RefillStepped, and unknown algorithms, which stores do not accept
		rate, period := steppedRate(l, n)
		return headgate.Limit{Rate: rate, Period: micros.Duration(period), Burst: min(capacity, min(maxFill/period, headgate.MaxUnits)*rate)}
	}
}

// dividedRate returns the rate L/P divided by n, for an algorithm with continuous
// refill. Only the quotient of rate and period matters, so it is exact if a period
// within the maximum makes that possible. Otherwise it is rounded down, but never to 0.
func dividedRate(l headgate.Limit, n int64) (rate, period int64) {
	g := gcd(l.Rate, n)
	rate, period = l.Rate/g, l.Period.Microseconds()*(n/g)
	if period <= maxPeriod {
		return rate, period
	}
	g = gcd(rate, period) // the rate is at most 1e9, so a period above 366 days stays above 31 ms
	if rate, period = rate/g, period/g; period <= maxPeriod {
		return rate, period
	}
	return max(1, mulDiv(rate, maxPeriod, period)), maxPeriod
}

// steppedRate returns the rate L/P divided by n, for algorithms that add units
// together: fewer units per period, or one unit per several whole periods.
func steppedRate(l headgate.Limit, n int64) (rate, period int64) {
	period = l.Period.Microseconds()
	if l.Rate >= n {
		return l.Rate / n, period
	}
	return 1, period * min((n+l.Rate-1)/l.Rate, maxPeriod/period)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mulDiv returns a·b/m rounded down, but at most [headgate.MaxUnits]. a and b must be
// at least 0 and m above 0.
func mulDiv(a, b, m int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(m) {
		return headgate.MaxUnits
	}
	q, _ := bits.Div64(hi, lo, uint64(m))
	return int64(min(q, headgate.MaxUnits))
}
