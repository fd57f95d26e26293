package httpfields

import (
	"math/bits"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// maxInteger is the largest integer of a structured field (RFC 9651, section 3.3.1).
const maxInteger = 999_999_999_999_999

// clamp is n as fields can hold it; none is below 0.
func clamp(n int64) int64 { return max(0, min(n, maxInteger)) }

// seconds is d in whole seconds, rounded up; 0 for what is over.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// window is the effective window, in seconds rounded up, at least 1:
//
//   - for a window, the wait until all that counts now counts no more, or until this cost is admitted if that is sooner;
//   - for a bucket with something left, the time in which as much comes in: more than the sustained rate is never promised;
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

// untilReset is a window's own. A window that was never used has no beginning: then it is the whole period.
func (l *limit) untilReset(d *headgate.Decision) time.Duration {
	wait := d.ResetAfter
	if wait <= 0 {
		wait = l.Limit.Limit.Period
	}
	if d.RetryAfter > 0 {
		wait = min(wait, d.RetryAfter)
	}
	return wait
}

// timeToFill is r·P/L in whole seconds, rounded up. The quotient fits: no valid limit holds more units than it is asked for.
func (l *limit) timeToFill(r int64) int64 {
	r = min(r, headgate.MaxUnits+1)
	perSecond := uint64(l.Limit.Limit.Rate) * 1e6
	hi, lo := bits.Mul64(uint64(r), uint64(l.Limit.Limit.Period/time.Microsecond))
	lo, carry := bits.Add64(lo, perSecond-1, 0)
	quotient, _ := bits.Div64(hi+carry, lo, perSecond)
	return int64(quotient)
}

// untilNextUnit is the wait until an empty bucket holds one unit: the time to fill less that of all other units, rounded up, or
// the wait for this cost if that is shorter, which for a cost of 1 is exact.
func (l *limit) untilNextUnit(d *headgate.Decision) time.Duration {
	var others time.Duration
	if l.Algorithm.Refill() == headgate.RefillStepped {
		others = time.Duration((l.capacity-1)/l.Limit.Limit.Rate) * l.Limit.Limit.Period
	} else {
		hi, lo := bits.Mul64(uint64(l.capacity-1), uint64(l.Limit.Limit.Period/time.Microsecond))
		us, _ := bits.Div64(hi, lo, uint64(l.Limit.Limit.Rate))
		others = micros.Duration(int64(us))
	}
	wait := d.ResetAfter - others
	if d.RetryAfter > 0 {
		wait = min(wait, d.RetryAfter)
	}
	return wait
}

// degradedWindow is for an answer that was not the store's. It may come from a share of the limit, which fills more slowly, so
// only its own waits are true.
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
