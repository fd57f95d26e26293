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

// floor is the largest whole number that is not above r.
func floor(r *big.Rat) int64 {
	q, m := new(big.Int), new(big.Int)
	q.DivMod(r.Num(), r.Denom(), m) // Euclidean: the denominator is positive, so this rounds down
	return toInt64(q)
}

// ceil is the smallest whole number that is not below r.
func ceil(r *big.Rat) int64 {
	q, m := new(big.Int), new(big.Int)
	if q.DivMod(r.Num(), r.Denom(), m); m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return toInt64(q)
}

// fit is n as an int64: every instant and count of the accepted domain is one.
func toInt64(n *big.Int) int64 {
	if !n.IsInt64() {
		panic("model: " + n.String() + " µs or units are outside the accepted domain")
	}
	return n.Int64()
}

// product is a·b.
func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// firstFrom is the first instant in [from, to] for which holds is true, given that it stays true from then on and is true at
// to.
func searchInstant(from, to int64, holds func(at int64) bool) int64 {
	for from < to {
		if middle := from + (to-from)/2; holds(middle) {
			to = middle
		} else {
			from = middle + 1
		}
	}
	return from
}
