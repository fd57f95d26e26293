package model

import "math/big"

func whole(n int64) *big.Rat     { return new(big.Rat).SetInt64(n) }
func rat(a, b int64) *big.Rat    { return big.NewRat(a, b) }
func sub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

func minRat(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

func maxRat(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) >= 0 {
		return a
	}
	return b
}

// floor returns the largest integer that is at most r.
func floor(r *big.Rat) int64 {
	q, m := new(big.Int), new(big.Int)
	q.DivMod(r.Num(), r.Denom(), m) // DivMod rounds down, because a denominator is positive
	return toInt64(q)
}

// ceil returns the smallest integer that is at least r.
func ceil(r *big.Rat) int64 {
	q, m := new(big.Int), new(big.Int)
	if q.DivMod(r.Num(), r.Denom(), m); m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return toInt64(q)
}

// toInt64 converts n to an int64. It panics if n does not fit, which cannot happen for
// an instant or a count in the valid domain.
func toInt64(n *big.Int) int64 {
	if !n.IsInt64() {
		panic("model: " + n.String() + " µs or units are outside the valid domain")
	}
	return n.Int64()
}

// product returns a·b, which may exceed an int64.
func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// searchInstant returns the first instant, from from to to, at which reached returns
// true. reached must return true at to, and must return true at every instant after the
// first such instant.
func searchInstant(from, to int64, reached func(at int64) bool) int64 {
	for from < to {
		if middle := from + (to-from)/2; reached(middle) {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return from
}
