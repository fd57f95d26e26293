package model

import (
	"math/big"

	"github.com/headgate/headgate"
)

// tokenBucket is a token bucket that refills continuously. If queues is set, it is a
// leaky bucket, which delays the requests that it admits. tat is the theoretical
// arrival time: the instant at which the bucket is full again.
type tokenBucket struct {
	queues bool
	tat    *big.Rat // nil if the bucket is unused
	unit   *big.Rat // time in which one unit is refilled, in µs: T
	full   int64    // capacity: B
}

func (b *tokenBucket) clone() state {
	c := *b
	return &c
}

// carry keeps tat, rounded up to a microsecond, but reduces it to t + B·T of the new
// limit if it is later.
func (b *tokenBucket) carry(l headgate.Limit, t int64) {
	b.unit, b.full = rat(l.Period.Microseconds(), l.Rate), l.Capacity()
	if b.tat != nil {
		b.tat = minRat(whole(ceil(b.tat)), b.after(t, b.full))
	}
}

func (b *tokenBucket) advance(int64) {}

func (b *tokenBucket) capacity() int64 { return b.full }

// admits reports whether max(tat, t) + n·T ≤ t + B·T.
func (b *tokenBucket) admits(t, n int64) bool {
	return b.arrival(t, n).Cmp(b.after(t, b.full)) <= 0
}

func (b *tokenBucket) spend(t, n int64) { b.tat = b.arrival(t, n) }

func (b *tokenBucket) refund(t, n int64) {
	if b.tat != nil {
		b.tat = maxRat(whole(t), sub(b.tat, b.units(n)))
	}
}

// remaining returns floor(B − max(0, tat−t)/T), but at least 0.
func (b *tokenBucket) remaining(t int64) int64 {
	missing := sub(b.arrival(t, 0), whole(t))
	left := sub(whole(b.full), missing.Quo(missing, b.unit))
	if left.Sign() <= 0 { // for a t far in the past, the quotient can exceed an int64
		return 0
	}
	return floor(left)
}

// admittedAt returns max(tat, t) + n·T − B·T, rounded up.
func (b *tokenBucket) admittedAt(t, n int64) int64 {
	return ceil(sub(b.arrival(t, n), b.units(b.full)))
}

func (b *tokenBucket) unusedAt(t int64) int64 { return ceil(b.arrival(t, 0)) }

func (b *tokenBucket) delay(t int64) int64 {
	if !b.queues {
		return 0
	}
	return ceil(b.arrival(t, 0)) - t
}

// arrival returns max(tat, t) + n·T.
func (b *tokenBucket) arrival(t, n int64) *big.Rat {
	if b.tat == nil || b.tat.Cmp(whole(t)) < 0 {
		return b.after(t, n)
	}
	return new(big.Rat).Add(b.tat, b.units(n))
}

// after returns t + n·T.
func (b *tokenBucket) after(t, n int64) *big.Rat { return new(big.Rat).Add(whole(t), b.units(n)) }

// units returns n·T, the time in which n units are refilled.
func (b *tokenBucket) units(n int64) *big.Rat { return new(big.Rat).Mul(whole(n), b.unit) }
