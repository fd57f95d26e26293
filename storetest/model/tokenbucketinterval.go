package model

import (
	"math/big"

	"github.com/headgate/headgate"
)

// intervalBucket is a token bucket that gets R tokens at the end of every interval I,
// up to its capacity B.
type intervalBucket struct {
	used     bool // false if the bucket is full; its intervals begin with the next take
	tokens   int64
	last     int64 // the end of the last interval for which tokens were added
	rate     int64 // tokens for each interval: R
	interval int64 // length of an interval in µs: I
	full     int64 // capacity: B
}

func (b *intervalBucket) clone() state {
	c := *b
	return &c
}

// carry keeps the number of tokens under the new limit. advance reduces it to the new
// capacity.
func (b *intervalBucket) carry(l headgate.Limit, _ int64) {
	b.rate, b.interval, b.full = l.Rate, l.Period.Microseconds(), l.Capacity()
}

// advance adds tokens for every interval that has ended at t. A full bucket equals an
// unused bucket: its intervals begin with the next take.
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
	b.advance(t) // the bucket may be full now
}

func (b *intervalBucket) remaining(int64) int64 { return max(0, b.tokens) }

func (b *intervalBucket) admittedAt(_, n int64) int64 { return b.refilledAt(n) }

func (b *intervalBucket) unusedAt(t int64) int64 {
	if b.tokens == b.full {
		return t
	}
	return b.refilledAt(b.full)
}

// refilledAt returns the instant at which the bucket has n tokens, if nothing is spent:
// last + ceil((n−tokens)/R)·I. n must be above the current number of tokens.
func (b *intervalBucket) refilledAt(n int64) int64 {
	return b.last + ceil(rat(n-b.tokens, b.rate))*b.interval
}

func (b *intervalBucket) delay(int64) int64 { return 0 }
