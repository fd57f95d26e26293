package algo

import "math/bits"

// Unit is the debt that one unit causes under a limit: for a bucket T = P/D µs, the time
// in which a unit refills; for the interval bucket 1/1 token. For an algorithm that
// counts in windows, P is the period in µs (0 for a calendar) and D is 0, because its
// units cause no [Debt].
type Unit struct{ P, D int64 }

// debtOf returns the debt that n units cause. It is limited to a time that is longer than
// every debt of a key.
func (u Unit) debtOf(n int64) Debt {
	if u.D == 0 {
		return Debt{}
	}
	if hi, lo := bits.Mul64(uint64(n), uint64(u.P)); hi == 0 && lo/uint64(u.D) < maxExact {
		return Debt{int64(lo / uint64(u.D)), int64(lo % uint64(u.D))}
	}
	t := fraction{u.P, u.D}
	whole, r := t.times(min(n, t.unitsWithin(maxExact, maxExact-1)+1))
	return Debt{whole, r}
}

// Debt is what must be refilled until the bucket is full: for the token bucket a time,
// for the interval bucket the missing tokens. Whole is in µs or tokens. Rest is a
// fraction of Whole, in units of 1/D µs, where D is that of the [Unit] of the limit (0
// for tokens).
type Debt struct{ Whole, Rest int64 }

// plus returns a + b.
func (a Debt) plus(b Debt, denominator int64) Debt {
	d := Debt{a.Whole + b.Whole, a.Rest + b.Rest}
	if d.Rest >= denominator {
		d.Whole, d.Rest = d.Whole+1, d.Rest-denominator
	}
	return d
}

// minus returns a − b, which must not be negative.
func (a Debt) minus(b Debt, denominator int64) Debt {
	d := Debt{a.Whole - b.Whole, a.Rest - b.Rest}
	if d.Rest < 0 {
		d.Whole, d.Rest = d.Whole-1, d.Rest+denominator
	}
	return d
}

// less reports whether a is below b.
func (a Debt) less(b Debt) bool { return a.Whole < b.Whole || a.Whole == b.Whole && a.Rest < b.Rest }

func minDebt(a, b Debt) Debt {
	if b.less(a) {
		return b
	}
	return a
}
