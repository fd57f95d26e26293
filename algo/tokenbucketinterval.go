package algo

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

//go:embed tokenbucketinterval.lua
var intervalBucketLua string

// intervalBucket adds R tokens at the end of every interval I, up to B, like the token
// bucket of the Redis guides. Intervals begin when a full bucket is first used.
//
// Its state is A, the instant of the last refill; B, the tokens plus one, which
// distinguishes an empty bucket from an unused key; and C, the tokens owed to
// reservations, which only an empty bucket has.
type intervalBucket struct{ rate, interval, burst int64 }

func newIntervalBucket(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.TokenBucketInterval); err != nil {
		return nil, err
	}
	b := &intervalBucket{rate: l.Rate, interval: periodMicros(l), burst: l.Capacity()}
	intervals := ceilDiv(b.burst, b.rate)
	if saturatingMul(intervals, b.interval) > int64(headgate.MaxFillTime/time.Microsecond) {
		return nil, &headgate.LimitError{
			Field: "fill time", Value: fmt.Sprintf("%d intervals of %v", intervals, l.Period),
			Bound: "must be at most 100 years; it is ceil(burst/rate)·period",
		}
	}
	return b, nil
}

// refilled is the unpacked state. missing is B − tokens + the tokens owed.
type refilled struct{ last, missing int64 }

// at returns the bucket at t, after the refills that are due. A full bucket is unused:
// its intervals begin at t.
func (b *intervalBucket) at(s State, t int64) refilled {
	r := b.unpack(s)
	if t > r.last {
		k := (t - r.last) / b.interval
		if k >= ceilDiv(r.missing, b.rate) {
			return refilled{last: t}
		}
		r.last += k * b.interval
		r.missing -= k * b.rate
	}
	if r.missing == 0 {
		r.last = t
	}
	return r
}

// unpack caps the tokens owed by what can be refilled until the latest instant, because
// another limit may have owed far more.
func (b *intervalBucket) unpack(s State) refilled {
	if s.B == 0 {
		return refilled{}
	}
	missing := b.burst - min(s.B-1, b.burst) + s.C
	if s.C > 0 {
		missing = min(missing, saturatingMul((maxExact-s.A)/b.interval, b.rate))
	}
	return refilled{last: s.A, missing: missing}
}

func (b *intervalBucket) pack(r refilled) State {
	if r.missing == 0 {
		return State{}
	}
	return State{A: r.last, B: max(0, b.burst-r.missing) + 1, C: max(0, r.missing-b.burst)}
}

// tokens returns the tokens that can be spent immediately.
func (b *intervalBucket) tokens(r refilled) int64 { return max(0, b.burst-r.missing) }

// instantOf returns when n tokens are available, for n above the tokens available now.
func (b *intervalBucket) instantOf(r refilled, n int64) int64 {
	return r.last + ceilDiv(n-b.burst+r.missing, b.rate)*b.interval
}

// Take allows iff tokens ≥ n.
func (b *intervalBucket) Take(s State, t, n int64) (State, bool) {
	if n == 0 {
		return s, true
	}
	r := b.at(s, t)
	if n > b.burst-r.missing {
		return s, false
	}
	r.missing += n
	return b.pack(r), true
}

// Answer calculates retry_after = last + ceil((n−tokens)/R)·I − t and reset_after =
// last + ceil((B−tokens)/R)·I − t, 0 when full.
func (b *intervalBucket) Answer(s State, t, asked, _ int64, allowed bool) headgate.Decision {
	r := b.at(s, t)
	d := headgate.Decision{Allowed: allowed, Limit: b.burst, Remaining: b.tokens(r)}
	if r.missing > 0 {
		d.ResetAfter = micros.Duration(b.instantOf(r, b.burst) - t)
	}
	switch {
	case allowed:
	case asked > b.burst:
		return never(d)
	default:
		d.RetryAfter = micros.Duration(b.instantOf(r, asked) - t)
	}
	return d
}

// Refund sets tokens = min(B, tokens + n), after the refills that are due.
func (b *intervalBucket) Refund(s State, t, n int64) State {
	if n == 0 {
		return s
	}
	r := b.at(s, t)
	r.missing -= min(n, r.missing)
	return b.pack(r)
}

// Undo refunds n tokens, except in two cases. After a refill the bucket may have been
// full. If a token is owed, its time was promised. A refill moves the state's instant
// by at least one interval. If the take started the intervals, they would start later
// without it, at t at the latest.
func (b *intervalBucket) Undo(s, was, after State, t0, t, n int64) State {
	r := b.unpack(s)
	switch {
	case s == after:
		return was
	case t < t0 || s.C > 0 || n == 0 || n > r.missing || s.A < after.A || s.A-after.A >= b.interval:
		return s
	}
	if r.missing -= n; b.at(was, t0).missing == 0 {
		r.last = max(r.last, t)
	}
	return b.pack(r)
}

// ResetAt returns when the bucket is full.
func (b *intervalBucket) ResetAt(s State) int64 {
	r := b.unpack(s)
	if r.missing == 0 {
		return 0
	}
	return b.instantOf(r, b.burst)
}

// Rephase restarts the interval at t.
func (b *intervalBucket) Rephase(s State, t int64) State {
	if s.B > 0 {
		s.A = max(s.A, t)
	}
	return s
}

// Reserve lets the bucket owe unavailable tokens, up to 1e9 in all.
func (b *intervalBucket) Reserve(s State, t, n, maxDelay int64) (after State, delay int64, booked bool) {
	if n == 0 || n > b.burst {
		return s, 0, n == 0
	}
	r := b.at(s, t)
	if n > b.burst-r.missing {
		delay = b.instantOf(r, n) - t
	}
	r.missing += n
	if delay > maxDelay || r.missing-b.burst > headgate.MaxUnits || b.instantOf(r, b.burst) > maxExact {
		return s, delay, false
	}
	return b.pack(r), delay, true
}

// Cancel refunds n tokens, unless there is a later reservation, whose time was
// promised, or the reservation is due.
func (b *intervalBucket) Cancel(s, mark State, t, n int64) State {
	r := b.at(s, t)
	if s != mark || n == 0 || r.missing <= b.burst {
		return s
	}
	r.missing -= min(n, r.missing)
	return b.pack(r)
}

// Spacing returns floor(n/R) intervals: a caller that waited left less than R tokens.
func (b *intervalBucket) Spacing(n int64) int64 {
	return min(saturatingMul(n/b.rate, b.interval), maxExact)
}

// Params returns R, I and B.
func (b *intervalBucket) Params() []int64 { return []int64{b.rate, b.interval, b.burst} }
