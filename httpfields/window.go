package httpfields

import (
	"math/bits"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// maxInteger is the maximum integer in a structured field (RFC 9651, section 3.3.1).
const maxInteger = 999_999_999_999_999

// clamp returns n limited to the range from 0 to maxInteger, which the fields can
// express.
func clamp(n int64) int64 { return max(0, min(n, maxInteger)) }

// seconds returns d in whole seconds, rounded up, or 0 if d is negative.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// window returns the effective window, which is the parameter t of RateLimit, in
// seconds, rounded up, at least 1:
//
//   - for a window algorithm, the wait until all current units expire, or until this
//     cost is allowed if that is sooner;
//   - for a bucket with units remaining, the time in which as many units refill, so
//     that the fields never promise more than the sustained rate;
//   - for an empty bucket, the wait for the next unit.
func (l *limit) window(d *headgate.Decision) int64 {
	switch {
	case l.windowed:
		return max(1, seconds(l.untilReset(d)))
	case d.Degraded != headgate.ReasonNone:
		return max(1, l.degradedWindow(d))
	case d.Remaining > 0:
		return max(1, l.timeToFill(d.Remaining))
	default:
		return max(1, seconds(l.untilNextUnit(d)))
	}
}

// untilReset returns the effective window under an algorithm that counts in windows. An
// unused window has no start; its effective window is the whole period.
func (l *limit) untilReset(d *headgate.Decision) time.Duration {
	wait := d.ResetAfter
	if wait <= 0 && l.calendar != nil {
		wait = time.Duration(l.seconds) * time.Second
	} else if wait <= 0 {
		wait = l.Limit.Limit.Period
	}
	if d.RetryAfter > 0 {
		wait = min(wait, d.RetryAfter)
	}
	return wait
}

// timeToFill returns the time in which r units refill, in whole seconds, rounded up.
// The division cannot overflow, because r is first limited to the maximum units of a
// valid limit.
func (l *limit) timeToFill(r int64) int64 {
	r = min(r, headgate.MaxUnits+1)
	perSecond := uint64(l.Limit.Limit.Rate) * 1e6
	hi, lo := bits.Mul64(uint64(r), uint64(l.Limit.Limit.Period/time.Microsecond))
	lo, carry := bits.Add64(lo, perSecond-1, 0)
	quotient, _ := bits.Div64(hi+carry, lo, perSecond)
	return int64(quotient)
}

// untilNextUnit returns the wait until an empty bucket has one unit. This is the time
// until the bucket is full minus the time in which all other units refill. If the wait
// for the request's own cost is shorter, untilNextUnit returns that wait; for a cost of
// 1 it is exact.
func (l *limit) untilNextUnit(d *headgate.Decision) time.Duration {
	var others time.Duration
	if l.Algorithm.Refill() == headgate.RefillStepped {
		others = time.Duration((l.bucketCapacity-1)/l.Limit.Limit.Rate) * l.Limit.Limit.Period
	} else {
		hi, lo := bits.Mul64(uint64(l.bucketCapacity-1), uint64(l.Limit.Limit.Period/time.Microsecond))
		us, _ := bits.Div64(hi, lo, uint64(l.Limit.Limit.Rate))
		others = micros.Duration(int64(us))
	}
	wait := d.ResetAfter - others
	if d.RetryAfter > 0 {
		wait = min(wait, d.RetryAfter)
	}
	return wait
}

// degradedWindow returns the effective window of a decision that was made by the
// failure mode. Such a decision may apply a share of the limit, which refills more
// slowly, so the window is calculated from the decision's waits.
func (l *limit) degradedWindow(d *headgate.Decision) int64 {
	switch {
	case d.Remaining > 0:
		return max(l.timeToFill(d.Remaining), seconds(d.ResetAfter))
	case d.RetryAfter > 0:
		return seconds(d.RetryAfter)
	default:
		return seconds(d.ResetAfter)
	}
}
