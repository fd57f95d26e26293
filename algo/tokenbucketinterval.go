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

// intervalBucket adds R tokens at the end of every interval I, up to the capacity B,
// like the token bucket of the Redis guides. The first interval begins when a full
// bucket is first used. R and I are the limit's L and P.
//
// In its state, A is the instant of the last refill. B is the number of tokens plus
// one, so that an empty bucket differs from an unused key. C is the number of tokens
// owed to reservations, which is above 0 only if the bucket is empty.
type intervalBucket struct {
	rate, interval, burst int64
	unconverted
}

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

// refilled is the unpacked state: the instant of the last refill, and missing = B −
// tokens + owed tokens.
type refilled struct{ last, missing int64 }

// at returns the bucket at t, after all refills up to t. A full bucket counts as
// unused, so its interval begins at t.
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

// unpack limits the owed tokens to the number that can be refilled before the latest
// instant, because far more may have been owed under another limit.
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

// tokens returns the number of tokens that can be spent immediately.
func (b *intervalBucket) tokens(r refilled) int64 { return max(0, b.burst-r.missing) }

// instantOf returns the instant at which n tokens are available. n must be above the
// number of tokens available now.
func (b *intervalBucket) instantOf(r refilled, n int64) int64 {
	return r.last + ceilDiv(n-b.burst+r.missing, b.rate)*b.interval
}

// Take allows a request if and only if tokens ≥ n.
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
// last + ceil((B−tokens)/R)·I − t. reset_after is 0 if the bucket is full.
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

// Refund sets tokens = min(B, tokens + n), after all refills up to t.
func (b *intervalBucket) Refund(s State, t, n int64) State {
	if n == 0 {
		return s
	}
	r := b.at(s, t)
	r.missing -= min(n, r.missing)
	return b.pack(r)
}

// Undo refunds n tokens. It refunds nothing (it returns s) in two cases: if tokens were
// refilled since the take, because the bucket might then have been full without the
// take; or if tokens are owed to reservations, because their delays have been promised.
// A refill is visible because s.A is then at least one interval later than after.A. If
// the bucket was full before the take, the take started the current interval. Without
// the take that interval would have begun later, so Undo moves its beginning to t.
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

// ResetAt returns the instant at which the bucket is full, or 0 if it is full.
func (b *intervalBucket) ResetAt(s State) int64 {
	r := b.unpack(s)
	if r.missing == 0 {
		return 0
	}
	return b.instantOf(r, b.burst)
}

// Rephase makes the current interval begin at t, if it began earlier.
func (b *intervalBucket) Rephase(s State, t int64) State {
	if s.B > 0 {
		s.A = max(s.A, t)
	}
	return s
}

// Reserve lets the bucket owe tokens that are not yet available, at most 1e9 in total.
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

// Cancel refunds n tokens, unless the reservation is already due or there is a later
// reservation, whose delay has been promised.
func (b *intervalBucket) Cancel(s, reserved State, t, n int64) State {
	r := b.at(s, t)
	if s != reserved || n == 0 || r.missing <= b.burst {
		return s
	}
	r.missing -= min(n, r.missing)
	return b.pack(r)
}

// Spacing returns floor(n/R) intervals, as the lower bound of [Stepper.Spacing]. When
// the first waiting caller has been served, fewer than R tokens are left. At least
// floor(n/R) refills must therefore follow before n further tokens are available.
func (b *intervalBucket) Spacing(n int64) int64 {
	return min(saturatingMul(n/b.rate, b.interval), maxExact)
}

// Charge adds n to the missing tokens. At most 10^9 tokens can be owed.
func (b *intervalBucket) Charge(s State, t, n int64) State {
	if n == 0 {
		return s
	}
	r := b.at(s, t)
	r.missing = min(micros.SaturatingAdd(r.missing, n), b.burst+headgate.MaxUnits)
	return b.pack(r)
}

// Debt returns the missing tokens.
func (b *intervalBucket) Debt(s State, t int64) Debt { return Debt{Whole: b.at(s, t).missing} }

// Unit returns one token, as B/B. So the capacity is known after a change of the limit.
func (b *intervalBucket) Unit() Unit { return Unit{b.burst, b.burst} }

// Adopt converts the state of a key with leased units. Its other units are converted as
// those of a key without leases: a full bucket stays full, and any other keeps its
// tokens.
func (b *intervalBucket) Adopt(s State, t int64, from Unit, leased int64) (State, int64, bool) {
	if leased == 0 || from == b.Unit() || s.B == 0 {
		return s, 0, false
	}
	own, tokens := State{}, s.B-1-s.C+leased // s.C tokens are owed
	if tokens < from.P {
		own = State{A: s.A, B: max(0, tokens) + 1, C: max(0, -tokens)}
	}
	return b.Charge(own, t, leased), 0, false
}

// Correct returns the tokens of the parameter reduction. The intervals stay where they
// are.
func (b *intervalBucket) Correct(s State, t, _, _ int64, reduction Debt) State {
	return b.Refund(s, t, reduction.Whole)
}

// Raise makes at least n tokens missing. If no more are missing, the interval begins at
// t, as in a bucket that is full without these n.
func (b *intervalBucket) Raise(s State, t, n int64) State {
	n = min(n, b.burst+headgate.MaxUnits)
	if b.at(s, t).missing > n {
		return s
	}
	return b.pack(refilled{last: t, missing: n})
}

// Params returns R, I and B.
func (b *intervalBucket) Params() []int64 { return []int64{b.rate, b.interval, b.burst} }
