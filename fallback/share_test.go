package fallback

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
	"github.com/headgate/headgate/memstore"
)

var algorithms = func() []headgate.Algorithm {
	names := []headgate.Algorithm{"", headgate.GCRA}
	for _, a := range algo.Rates() {
		names = append(names, a.Name)
	}
	return names
}()

func TestLocalShareExamples(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		algorithm headgate.Algorithm
		limit     string
		n         int64
		want      string
	}{
		{"", "10/1s", 1, "10/1s"},
		{"", "10/1s", 2, "5/1s burst 5"},
		{"", "10/1s", 3, "10/3s burst 3"},
		{"", "10/1s", 4, "5/2s burst 2"},
		{"", "10/1s burst 40", 4, "5/2s burst 10"},
		{"", "2/1s", 5, "2/5s burst 1"},
		{"", "1000/30d", 13, "1/33696s burst 76"},         // 390 days, in lowest terms
		{"", "999983/30d", 13, "938445/366d burst 76921"}, // 366d is the longest period: rounded down
		{"", "1/366d", 2, "1/366d burst 1"},               // no period is long enough
		{"", "7/366d burst 698", 3, "2/366d burst 199"},   // the rate is rounded down, so less is filled in 100 years
		{headgate.LeakyBucket, "100/1m queue 50", 2, "50/1m burst 25"},
		{headgate.LeakyBucket, "100/1m queue 1", 7, "100/7m burst 1"},
		{headgate.TokenBucketInterval, "10/1s", 3, "3/1s burst 3"},
		{headgate.TokenBucketInterval, "10/1s burst 100", 3, "3/1s burst 33"},
		{headgate.TokenBucketInterval, "2/1s burst 100", 5, "1/3s burst 20"},
		{headgate.TokenBucketInterval, "1/200d", 5, "1/200d burst 1"},
		{headgate.TokenBucketInterval, "19/366d burst 1881", 10, "1/366d burst 99"},
		{headgate.FixedWindow, "10/1s", 3, "3/1s"},
		{headgate.SlidingLog, "10/1s", 10, "1/1s"},
		{headgate.SlidingLog, "10/1s", 11, "1/2s"},
		{headgate.SlidingWindow, "3/1m", 10, "1/4m"},
		{headgate.SlidingWindow, "1/100d", 10, "1/300d"},
	} {
		want := headgate.MustParseLimit(c.want)
		if got := share(c.algorithm, headgate.MustParseLimit(c.limit), c.n); got != want {
			t.Errorf("%s of %s for one of %d: got %v want %v", c.algorithm, c.limit, c.n, got, want)
		}
	}
}

// anyLimit returns a random valid limit, often at the bounds of the accepted range.
func anyLimit(d *rand.Rand) headgate.Limit {
	scaled := func(least, most int64) int64 {
		switch d.IntN(8) {
		case 0:
			return least
		case 1:
			return most
		}
		for v := d.Int64N(most) >> d.IntN(50); ; v = d.Int64N(most) >> d.IntN(50) {
			if v >= least && v <= most {
				return v
			}
		}
	}
	for {
		l := headgate.Limit{Rate: scaled(1, 1e9), Period: micros.Duration(scaled(1000, maxPeriod))}
		if d.IntN(4) == 0 { // Bind accepts it only for an algorithm that counts
			l.Rate = scaled(1, headgate.MaxWindowUnits)
		}
		if d.IntN(2) == 0 {
			l.Burst = scaled(1, 1e9)
		}
		if l.Validate() == nil {
			return l
		}
	}
}

func rat(a, b int64) *big.Rat { return big.NewRat(a, b) }

// TestLocalSharesSumToLimit checks the documentation of [Options].Instances with random
// limits, in rational numbers.
func TestLocalSharesSumToLimit(t *testing.T) {
	t.Parallel()
	d := rand.New(rand.NewPCG(1, 2))
	local := memstore.New(&memstore.Options{MaxEntries: 1000})
	defer local.Close()
	exact := 0
	for range 20_000 {
		a, l, n := algorithms[d.IntN(len(algorithms))], anyLimit(d), 1+d.Int64N(1<<d.IntN(17))
		if _, err := local.Bind(headgate.Rule{Limit: l, Algorithm: a}); err != nil {
			continue // an interval bucket counts whole intervals, so it rejects some limits
		}
		got := share(a, l, n)
		if _, err := local.Bind(headgate.Rule{Limit: got, Algorithm: a}); err != nil {
			t.Fatalf("%s of %v for one of %d: got %v, which is refused: %v", a, l, n, got, err)
		}
		if n > 1 && got.Burst > max(1, l.Capacity()/n) {
			t.Fatalf("%s of %v for one of %d: got %v, whose capacity is above its share", a, l, n, got)
		}
		all := new(big.Rat).Mul(rat(n, 1), rat(got.Rate, got.Period.Microseconds()))
		limit := rat(l.Rate, l.Period.Microseconds())
		if all.Cmp(limit) > 0 && new(big.Rat).Mul(limit, rat(maxPeriod, 1)).Cmp(rat(n, 1)) >= 0 && !tooLongInSteps(a, l, n) {
			t.Fatalf("%s of %v for one of %d: got %v: all together are faster than the limit", a, l, n, got)
		}
		if all.Cmp(limit) == 0 {
			exact++
		}
		if continuous(a) && got.Period.Microseconds() < maxPeriod && all.Cmp(limit) != 0 {
			t.Fatalf("%s of %v for one of %d: got %v: all together are not as fast as the limit", a, l, n, got)
		}
	}
	if exact < 5000 {
		t.Errorf("%d of 20,000 shares are exact: the test looks at too few", exact)
	}
}

func continuous(a headgate.Algorithm) bool {
	return a.Refill() == headgate.RefillContinuous
}

// tooLongInSteps reports whether that many whole periods are longer than accepted.
func tooLongInSteps(a headgate.Algorithm, l headgate.Limit, n int64) bool {
	return !continuous(a) && l.Rate < n && l.Period > headgate.MaxPeriod/time.Duration((n+l.Rate-1)/l.Rate)
}

// TestLocalSharesDoNotExceedLimit spends all units that a few instances grant, as early
// as possible, and checks every time span.
func TestLocalSharesDoNotExceedLimit(t *testing.T) {
	t.Parallel()
	d := rand.New(rand.NewPCG(3, 4))
	for _, a := range algorithms[1:] {
		for range 40 {
			n := 1 + d.Int64N(5)
			l := headgate.Limit{Rate: n + d.Int64N(20), Period: micros.Duration(1000 + d.Int64N(5_000_000))}
			if d.IntN(2) == 0 && !a.Windowed() {
				l.Burst = n + d.Int64N(20)
			}
			log := spendAll(t, a, share(a, l, n), n)
			for i := range log {
				units := int64(0)
				for _, at := range log[i:] {
					if units++; over(a, l, at-log[i], units) {
						t.Fatalf("%s of %v, %d instances: %d units within %d µs", a, l, n, units, at-log[i])
					}
				}
			}
		}
	}
}

// spendAll returns the instants at which n instances allow units, each as many as it can.
func spendAll(t *testing.T, a headgate.Algorithm, l headgate.Limit, n int64) []int64 {
	t.Helper()
	const start, end = int64(1_767_268_800_000_000), 400
	bounds := make([]headgate.Bound, n)
	for i := range bounds {
		store := memstore.New(&memstore.Options{MaxEntries: 100})
		defer store.Close()
		var err error
		if bounds[i], err = store.Bind(headgate.Rule{Limit: l, Algorithm: a}); err != nil {
			t.Fatal(err)
		}
	}
	var log []int64
	for now := start; len(log) < end; {
		next := int64(1 << 62)
		for _, b := range bounds {
			for {
				d, err := b.Apply(t.Context(), headgate.Instant(now), "key", headgate.Take, 1)
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed {
					next = min(next, now+d.RetryAfter.Microseconds())
					break
				}
				log = append(log, now)
			}
		}
		now = next
	}
	return log
}

// over reports whether the units within a span exceed what the limit guarantees
// in one store.
func over(a headgate.Algorithm, l headgate.Limit, span, units int64) bool {
	p := l.Period.Microseconds()
	switch {
	case a == headgate.SlidingLog:
		return span < p && units > l.Rate
	case a == headgate.SlidingWindow:
		return span <= p && (units-l.Rate)*p > l.Rate*span
	case a.Windowed():
		return span <= p && units > 2*l.Rate
	case a.Refill() == headgate.RefillStepped:
		return units > l.Capacity()+l.Rate*((span+p-1)/p)
	default:
		return (units-l.Capacity())*p > l.Rate*span
	}
}
