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

// floor returns the largest integer that is not above r.
func floor(r *big.Rat) int64 {
	q, m := new(big.Int), new(big.Int)
	q.DivMod(r.Num(), r.Denom(), m) // Euclidean division by a positive number rounds down
	return toInt64(q)
}

// ceil returns the smallest integer that is not below r.
func ceil(r *big.Rat) int64 {
	q, m := new(big.Int), new(big.Int)
	if q.DivMod(r.Num(), r.Denom(), m); m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return toInt64(q)
}

// toInt64 converts n. Every instant and count in the valid domain fits in an int64;
// otherwise it panics.
func toInt64(n *big.Int) int64 {
	if !n.IsInt64() {
		panic("model: " + n.String() + " µs or units are outside the valid domain")
	}
	return n.Int64()
}

// product returns a·b.
func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// searchInstant returns the first instant in [from, to] at which reached returns true.
// reached must be true at to and must stay true once it is true.
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
