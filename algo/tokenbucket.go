package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

//go:embed tokenbucket.lua
var tokenBucketLua string

// bucket is the generic cell rate algorithm (ITU-T I.371, annex A, virtual scheduling).
// This is the token bucket with continuous refill. The leaky bucket uses the same
// arithmetic.
//
// Its state is the theoretical arrival time TAT, the instant at which the bucket is
// full again. A is TAT in whole µs, and B is the remainder, in units of 1/d µs. C is
// the fingerprint of the limit, by which a changed limit is detected.
type bucket struct {
	t           fraction
	burst       int64 // capacity B
	unit, unitR int64 // T in whole µs, and the remainder in units of 1/d µs
	full, fullR int64 // B·T in whole µs, and the remainder in units of 1/d µs
	fingerprint int64
	leaky       bool
}

func newTokenBucket(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.TokenBucket); err != nil {
		return nil, err
	}
	return makeBucket(l, false), nil
}

func makeBucket(l headgate.Limit, leaky bool) *bucket {
	b := &bucket{t: newFraction(periodMicros(l), l.Rate), burst: l.Capacity(), leaky: leaky}
	b.unit, b.unitR = b.t.times(1)
	b.full, b.fullR = b.t.times(b.burst)
	b.fingerprint = fingerprint(l.Rate, periodMicros(l), b.burst)
	return b
}

// fingerprint returns a hash (FNV-1a) from 1 to 2^30 − 1. Two different limits have the
// same fingerprint with a probability of 1 in 2^30.
func fingerprint(numbers ...int64) int64 {
	h := uint64(14695981039346656037)
	for _, n := range numbers {
		for range 8 {
			h = (h ^ uint64(n&0xff)) * 1099511628211
			n >>= 8
		}
	}
	return int64(h%(1<<30-1)) + 1
}

// Take allows a request if and only if max(TAT, t) + n·T ≤ t + B·T. If it is allowed,
// the new TAT is max(TAT, t) + n·T.
func (b *bucket) Take(s State, t, n int64) (State, bool) {
	if n == 0 || n > b.burst {
		return s, n == 0
	}
	next := b.advance(b.carryOver(s, t), t, n)
	if next.A > t+b.full || next.A == t+b.full && next.B > b.fullR {
		return s, false
	}
	return next, true
}

// carryOver converts the state of another limit: it keeps TAT, rounds a fraction of a
// µs up, and reduces TAT to t + B·T if it is later.
func (b *bucket) carryOver(s State, t int64) State {
	if s.C == b.fingerprint {
		return s
	}
	if s.B > 0 {
		s.A, s.B = s.A+1, 0
	}
	if s.A > t+b.full {
		s.A, s.B = t+b.full, b.fullR
	}
	s.C = b.fingerprint
	return s
}

// advance returns the state after n further units were spent, whether or not they are
// available.
func (b *bucket) advance(s State, t, n int64) State {
	if s.A < t {
		s.A, s.B = t, 0
	}
	whole, r := b.unit, b.unitR
	if n != 1 {
		whole, r = b.t.times(n)
	}
	s.A, s.B = s.A+whole, s.B+r
	if s.B >= b.t.d {
		s.A, s.B = s.A+1, s.B-b.t.d
	}
	s.C = b.fingerprint
	return s
}

// Answer calculates remaining = floor(B − max(0, TAT−t)/T), retry_after = TAT + n·T −
// B·T − t and reset_after = max(0, TAT−t). The delay of a leaky bucket is the value of
// reset_after before the units were spent.
func (b *bucket) Answer(s State, t, asked, spent int64, allowed bool) headgate.Decision {
	s = b.carryOver(s, t)
	d := headgate.Decision{Allowed: allowed, Limit: b.burst, Remaining: b.remaining(s, t)}
	d.ResetAfter = micros.Duration(max(0, b.ResetAt(s)-t))
	switch {
	case allowed && b.leaky:
		d.Delay = micros.Duration(b.delay(s, t, spent))
	case allowed:
	case asked > b.burst:
		return never(d)
	default:
		d.RetryAfter = micros.Duration(b.wait(b.advance(s, t, asked), t))
	}
	return d
}

func (b *bucket) remaining(s State, t int64) int64 {
	if s.A < t {
		return b.burst
	}
	if s.A-t > b.full {
		return 0
	}
	return max(0, b.burst-b.t.unitsIn(s.A-t, s.B))
}

// wait returns the time, in µs and rounded up, until next is at most t + B·T, so that
// the requested units are available. next is the state after these units.
func (b *bucket) wait(next State, t int64) int64 {
	w := next.A - b.full - t
	if next.B > b.fullR {
		w++
	}
	return max(0, w)
}

// delay returns the number of µs, rounded up, after which the n units that were just
// spent may proceed: TAT − n·T − t.
func (b *bucket) delay(s State, t, n int64) int64 {
	whole, r := b.t.times(n)
	d := s.A - whole - t
	if s.B > r {
		d++
	}
	return max(0, d)
}

// Refund changes TAT to max(t, TAT − n·T).
func (b *bucket) Refund(s State, t, n int64) State {
	now := b.carryOver(s, t)
	if now.A < t || n == 0 {
		return s
	}
	whole, r := b.units(n)
	return b.back(now, t, whole, r)
}

// Undo changes TAT to max(t, TAT − n·T + t − t0). Without the take, TAT would be lower
// by n·T, less the time for which the bucket would have been full since t0. This time
// is at most t − t0, and its part that belongs to other undone takes is unknown, so
// every undo deducts all of t − t0. Undo returns s if units are owed to reservations,
// because their delays have been promised, as in Cancel. For the same reason it refunds
// nothing to a leaky bucket.
func (b *bucket) Undo(s, was, after State, t0, t, n int64) State {
	switch {
	case s == after:
		return was
	case b.leaky || t < t0 || s.C != b.fingerprint || s.A < t || b.wait(s, t) > 0:
		return s
	}
	whole, r := b.units(n)
	if whole -= t - t0; whole < 0 {
		return s
	}
	return b.back(s, t, whole, r)
}

// units returns n·T for any n. The result is limited to a time that exceeds every TAT.
func (b *bucket) units(n int64) (whole, r int64) {
	return b.t.times(min(n, b.t.unitsWithin(maxExact, maxExact-1)+1))
}

// back makes TAT earlier by whole + r/d µs, but not earlier than t.
func (b *bucket) back(s State, t, whole, r int64) State {
	s.A, s.B = s.A-whole, s.B-r
	if s.B < 0 {
		s.A, s.B = s.A-1, s.B+b.t.d
	}
	if s.A < t {
		s.A, s.B = t, 0
	}
	return s
}

// ResetAt returns TAT, rounded up to a whole µs.
func (b *bucket) ResetAt(s State) int64 {
	if s.B > 0 {
		return s.A + 1
	}
	return s.A
}

// Reserve allows TAT to exceed t + B·T by at most maxDelay. The units of a leaky bucket
// are delayed until the previous TAT.
func (b *bucket) Reserve(s State, t, n, maxDelay int64) (after State, delay int64, booked bool) {
	if n == 0 || n > b.burst {
		return s, 0, n == 0
	}
	next := b.advance(b.carryOver(s, t), t, n)
	delay = b.wait(next, t)
	if b.leaky {
		delay = b.delay(next, t, n)
	}
	if delay > maxDelay || next.A >= maxExact {
		return s, delay, false
	}
	return next, delay, true
}

// Cancel makes TAT earlier by n·T, unless there is a later reservation or the limit was
// changed. The units of a later reservation proceed at their promised time; with an
// earlier TAT, the same time could be granted twice.
func (b *bucket) Cancel(s, reserved State, t, n int64) State {
	if s != reserved || s.C != b.fingerprint || n == 0 || b.due(reserved, t, n) {
		return s
	}
	whole, r := b.t.times(n)
	return b.back(s, t, whole, r)
}

// due reports whether the units of the reservation with the state reserved were allowed
// to proceed by t.
func (b *bucket) due(reserved State, t, n int64) bool {
	if b.leaky {
		return b.delay(reserved, t, n) == 0
	}
	return b.wait(reserved, t) == 0
}

// Spacing returns n·T in µs, rounded down.
func (b *bucket) Spacing(n int64) int64 {
	whole, _ := b.t.times(min(n, b.t.unitsWithin(maxExact, maxExact)))
	return whole
}

// Charge advances TAT by n·T. TAT stays within the instants that a state can store.
func (b *bucket) Charge(s State, t, n int64) State {
	if n == 0 {
		return s
	}
	s = b.carryOver(s, t)
	if n <= b.t.unitsWithin(maxExact-max(s.A, t), maxExact) {
		if next := b.advance(s, t, n); next.A <= maxExact {
			return next
		}
	}
	return State{A: maxExact, C: b.fingerprint}
}

// Adopt is carryOver, without the debt of the leased units, which is then added under
// this limit. It cuts the time by which carryOver reduces TAT.
func (b *bucket) Adopt(s State, t int64, from Unit, leased int64) (next State, cut int64, changed bool) {
	if s.C == b.fingerprint {
		return s, 0, false
	}
	own := State{C: s.C}
	if tat, by := (Debt{s.A, s.B}), from.debtOf(leased); !tat.less(by) {
		tat = tat.minus(by, from.D)
		own.A, own.B = tat.Whole, tat.Rest
	}
	next = b.carryOver(own, t)
	cut = max(0, b.ResetAt(own)-next.A)
	return b.Charge(next, t, leased), cut, true
}

// Recount returns 0; see ChargedAt.
func (b *bucket) Recount(State, int64, int64, Unit) int64 { return 0 }

// ChargedAt returns 0: a correction does not depend on when the units were charged.
func (b *bucket) ChargedAt(State) int64 { return 0 }

// Debt returns max(0, TAT − t).
func (b *bucket) Debt(s State, t int64) Debt {
	if s.A < t {
		return Debt{}
	}
	return Debt{s.A - t, s.B}
}

// Unit returns T.
func (b *bucket) Unit() Unit { return Unit{b.t.p, b.t.d} }

// Correct makes TAT earlier by the parameter reduction.
func (b *bucket) Correct(s State, t, _, _ int64, reduction Debt) State {
	return b.back(s, t, reduction.Whole, reduction.Rest)
}

// Raise makes TAT at least t + n·T.
func (b *bucket) Raise(s State, t, n int64) State {
	raised := b.Charge(State{A: t, C: b.fingerprint}, t, n)
	if s.A < raised.A || s.A == raised.A && s.B < raised.B {
		return raised
	}
	return s
}

// LeaseEnd returns an instant after all others.
func (b *bucket) LeaseEnd(State, int64) int64 { return maxExact }

// Params returns B, p, d, T, B·T and the fingerprint. T and B·T are two numbers each:
// whole µs and the remainder.
func (b *bucket) Params() []int64 {
	return []int64{b.burst, b.t.p, b.t.d, b.unit, b.unitR, b.full, b.fullR, b.fingerprint}
}
