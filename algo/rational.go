package algo

import "math/bits"

// fraction is the time T = P/L per unit as p/d µs in lowest terms: p = P/g and d = L/g,
// where g = gcd(P, L).
type fraction struct{ p, d int64 }

func newFraction(period, rate int64) fraction {
	g := gcd(period, rate)
	return fraction{p: period / g, d: rate / g}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// times returns n·T as whole µs and a remainder of r/d µs. n must be at least 0, and
// n·T below 2^63 µs.
func (f fraction) times(n int64) (whole, r int64) {
	if f.d == 1 && n < 1<<18 { // p has at most 45 bits
		return n * f.p, 0
	}
	return mulDiv(n, f.p, f.d)
}

// unitsIn returns (whole + r/d)/T, the number of units that refill in whole + r/d µs,
// rounded up. The result must fit in an int64.
func (f fraction) unitsIn(whole, r int64) int64 {
	hi, lo := bits.Mul64(uint64(whole), uint64(f.d))
	lo, carry := bits.Add64(lo, uint64(r), 0)
	if hi += carry; hi == 0 {
		q := lo / uint64(f.p)
		if q*uint64(f.p) != lo {
			q++
		}
		return int64(q)
	}
	q, rest := bits.Div64(hi, lo, uint64(f.p))
	if rest > 0 {
		q++
	}
	return int64(q)
}

// unitsWithin returns the number of whole units that refill in us µs, but at most
// limit.
func (f fraction) unitsWithin(us, limit int64) int64 {
	hi, lo := bits.Mul64(uint64(us), uint64(f.d))
	if hi >= uint64(f.p) {
		return limit
	}
	q, _ := bits.Div64(hi, lo, uint64(f.p))
	return int64(min(q, uint64(limit)))
}

// mulDiv returns a·b/m, rounded down, and the remainder. a and b must be at least 0,
// and the quotient must fit in an int64.
func mulDiv(a, b, m int64) (q, r int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi == 0 {
		return int64(lo / uint64(m)), int64(lo % uint64(m))
	}
	uq, ur := bits.Div64(hi, lo, uint64(m))
	return int64(uq), int64(ur)
}

// mulDivCeil returns a·b/m rounded up.
func mulDivCeil(a, b, m int64) int64 {
	q, r := mulDiv(a, b, m)
	if r > 0 {
		q++
	}
	return q
}
