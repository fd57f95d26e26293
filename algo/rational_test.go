package algo

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestFractionEqualsBigRationals compares the Go arithmetic with math/big over the whole
// accepted range, including its bounds.
func TestFractionEqualsBigRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 300))
	below := func(bits int) int64 {
		switch n := int64(1) << (1 + r.IntN(bits)); r.IntN(3) {
		case 0:
			return n - 1
		default:
			return r.Int64N(n)
		}
	}
	for range 100_000 {
		period, rate := 1000+below(44), 1+below(29)
		f := newFraction(period, rate)
		unit := big.NewRat(period, rate)
		n, us := below(30), below(53)
		product := new(big.Rat).Mul(big.NewRat(n, 1), unit)
		if product.Cmp(big.NewRat(1<<62, 1)) >= 0 {
			continue // times requires a product that fits
		}

		whole, rest := f.times(n)
		got := new(big.Rat).Add(big.NewRat(whole, 1), big.NewRat(rest, f.d))
		if want := product; got.Cmp(want) != 0 || rest < 0 || rest >= f.d {
			t.Fatalf("%d·%d/%d µs: got %d and %d/%d want %v", n, period, rate, whole, rest, f.d, want)
		}
		if got := f.unitsIn(whole, rest); got != n {
			t.Fatalf("units in %d·%d/%d µs: got %d want %d", n, period, rate, got, n)
		}
		held := new(big.Rat).Quo(big.NewRat(us, 1), unit)
		want := new(big.Int).Quo(held.Num(), held.Denom())
		if limit := big.NewInt(maxExact); want.Cmp(limit) > 0 {
			want = limit
		}
		if got := f.unitsWithin(us, maxExact); got != want.Int64() {
			t.Fatalf("whole units of %d/%d µs within %d µs: got %d want %d", period, rate, us, got, want)
		}
	}
}

func TestUnitsWithinStopsAtTheLimit(t *testing.T) {
	f := newFraction(1000, 1_000_000_000) // 1e6 units each µs
	for us, want := range map[int64]int64{
		0: 0, 1: 1_000_000, 9_007_199_254: 9_007_199_254_000_000, 9_007_199_255: maxExact, 18_446_744_073_709: maxExact,
		20_000_000_000_000: maxExact, maxExact: maxExact, // the product exceeds 2^64
	} {
		if got := f.unitsWithin(us, maxExact); got != want {
			t.Errorf("whole units of 1/1000000 µs within %d µs: got %d want %d", us, got, want)
		}
	}
}

func TestSaturatingMulAndCeilDiv(t *testing.T) {
	const most = 1<<63 - 1
	for _, c := range []struct{ a, b, want int64 }{
		{0, most, 0}, {1, most, most}, {2, most, most}, {most, most, most}, {1 << 31, 1 << 31, 1 << 62}, {1 << 32, 1 << 31, most},
	} {
		if got := saturatingMul(c.a, c.b); got != c.want {
			t.Errorf("saturatingMul(%d, %d): got %d want %d", c.a, c.b, got, c.want)
		}
	}
	for _, c := range []struct{ a, b, want int64 }{{0, 5, 0}, {1, 5, 1}, {5, 5, 1}, {6, 5, 2}, {most, 1, most}, {most, 2, 1 << 62}} {
		if got := ceilDiv(c.a, c.b); got != c.want {
			t.Errorf("ceilDiv(%d, %d): got %d want %d", c.a, c.b, got, c.want)
		}
	}
}
