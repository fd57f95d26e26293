package model

import (
	"math/big"

	"github.com/headgate/headgate"
)

// intervalBucket adds R tokens at the end of every interval I, up to B.
type intervalBucket struct {
	used     bool // false: the bucket is full
	tokens   int64
	last     int64 // the end of the last interval that was refilled
	rate     int64 // R
	interval int64 // I
	full     int64 // B
}

func (b *intervalBucket) clone() state {
	c := *b
	return &c
}

// carry keeps the tokens; advance limits them to B of the new limit.
func (b *intervalBucket) carry(l headgate.Limit, _ int64) {
	b.rate, b.interval, b.full = l.Rate, l.Period.Microseconds(), l.Capacity()
}

// advance refills for every interval that ended by t. A full bucket equals an unused
// one: its intervals begin with the next take.
func (b *intervalBucket) advance(t int64) {
	if b.used && t > b.last {
		intervals := (t - b.last) / b.interval
		refilled := new(big.Int).Add(big.NewInt(b.tokens), product(intervals, b.rate))
		if refilled.Cmp(big.NewInt(b.full)) > 0 {
			refilled.SetInt64(b.full)
		}
		b.tokens = toInt64(refilled)
		b.last += intervals * b.interval
	}
	if !b.used || b.tokens >= b.full {
		*b = intervalBucket{tokens: b.full, last: t, rate: b.rate, interval: b.interval, full: b.full}
	}
}

func (b *intervalBucket) capacity() int64 { return b.full }

func (b *intervalBucket) admits(_, n int64) bool { return b.tokens >= n }

func (b *intervalBucket) spend(_, n int64) { b.used, b.tokens = true, b.tokens-n }

func (b *intervalBucket) refund(t, n int64) {
	if missing := b.full - b.tokens; n > missing {
		n = missing
	}
	b.tokens += n
	b.advance(t) // it may be full now
}

func (b *intervalBucket) remaining(int64) int64 { return b.tokens }

func (b *intervalBucket) admittedAt(_, n int64) int64 { return b.refilledAt(n) }

func (b *intervalBucket) unusedAt(t int64) int64 {
	if b.tokens == b.full {
		return t
	}
	return b.refilledAt(b.full)
}

// refilledAt is when the bucket has n tokens, for n above its current tokens: last +
// ceil((n−tokens)/R)·I.
func (b *intervalBucket) refilledAt(n int64) int64 {
	return b.last + ceil(rat(n-b.tokens, b.rate))*b.interval
}

func (b *intervalBucket) delay(int64) int64 { return 0 }
