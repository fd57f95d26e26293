package algo_test

import (
	"errors"
	"math"
	"math/bits"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// Windows are aligned to the epoch, in whole multiples of the period. There are no
// calendar windows, so months, leap days, time zones and daylight saving do not exist
// here (T18).

const second = 1_000_000

func TestTTLIsNeverZero(t *testing.T) { // T5
	for _, period := range []string{"1ms", "999ms", "1s", "1001ms"} {
		for _, a := range algo.Rates() {
			k := keyOf(t, a.Name, "5/"+period)
			for _, now := range []int64{year2026, year2026 + 1, year2026 + 998_999, year2026 + 999_999} {
				k.take(now, 1)
				ttl := (k.resetAt(now) - now + 999) / 1000 // of a store: in ms, rounded up
				if fresh := newKey(a, k.limit); ttl < 1 || k.observed(now+ttl*1000) != fresh.observed(now+ttl*1000) {
					t.Errorf("%v at %d: got a TTL of %d ms, want at least 1 and until the key is unused", k, now, ttl)
				}
			}
		}
	}
}

func TestRefillOfDailyLimit(t *testing.T) { // T6
	const day = 24 * 3600 * second
	k := keyOf(t, headgate.TokenBucket, "1/d burst 10")
	k.take(year2026, 10)
	if got, want := k.resetAt(year2026), year2026+10*day; got != want {
		t.Errorf("drained: full again at %d, want %d", got, want)
	}
	for after, want := range map[int64]int64{0: 0, day - 1: 0, day: 1, 10*day - 1: 9, 10 * day: 10, 100 * day: 10} {
		if got := k.remaining(year2026 + after); got != want {
			t.Errorf("1/d burst 10, drained %d µs ago: got %d remaining want %d", after, got, want)
		}
	}
}

func TestClockStepsBackOneHour(t *testing.T) { // T17
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		const hour = 3600 * second
		k := newKey(a, headgate.MustParseLimit("10/s"))
		k.take(year2026, 10)
		spent := int64(10)
		for _, now := range []int64{year2026 - hour, year2026 - second, year2026 - 1, year2026, year2026 - 300_000} {
			d := k.take(now, 1)
			if d.Allowed || d.Remaining != 0 || d.RetryAfter <= 0 || !k.allows(now+d.RetryAfter.Microseconds(), 1) {
				t.Errorf("drained, then at %+d µs: got %+v want a denial with RetryAfter", now-year2026, d)
			}
			spent += k.take(now, 0).Remaining
		}
		if spent != 10 {
			t.Errorf("got %d units before the clock was where it had been, want 10", spent)
		}
	})
}

// TestNoDriftOverMillionsOfSteps spends each unit at the first instant at which it is
// available: after t the bucket has allowed exactly floor(t·L/P) + B units.
func TestNoDriftOverMillionsOfSteps(t *testing.T) { // T19, T21
	steps := 3_000_000
	if raceDetector || testing.Short() {
		steps = 100_000
	}
	for _, limit := range []string{
		"1/3s", "7/1000s", "1/30d burst 2", "3/s", "7/s", "300/s", "400000/s burst 10", "700000/s", "1000000000/s burst 1001",
		"999999937/366d", "1000000000/1009ms burst 1000",
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			k := keyOf(t, headgate.TokenBucket, limit)
			rate, period, capacity := k.limit.Rate, k.limit.Period.Microseconds(), k.limit.Capacity()
			start := year2026 + 12_345
			s, now, spent := algo.State{}, start, int64(0)
			for range steps {
				next, ok := k.step.Take(s, now, 1)
				if s = next; ok {
					spent++
					continue
				}
				if got, want := spent, mulDiv(now-start, rate, period)+capacity; got != want {
					t.Fatalf("%s: %d µs on, got %d units want floor(t·L/P) + B = %d", limit, now-start, got, want)
				}
				if now += k.step.Answer(s, now, 1, 0, false).RetryAfter.Microseconds(); now > maxInstant {
					break
				}
			}
		})
	}
}

// mulDiv returns floor(a·b/m).
func mulDiv(a, b, m int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(m))
	return int64(q)
}

func TestExtremeLimitsDoNotOverflow(t *testing.T) { // T20
	k := keyOf(t, headgate.TokenBucket, "1/3155760000us burst 1000000")
	for name, c := range map[string]struct{ drained, after, remaining, reset int64 }{
		"at the epoch, at once":              {0, 0, 0, hundredYear},
		"at the epoch, 1 µs short":           {0, hundredYear - 1, 999_999, 1},
		"at the epoch, full":                 {0, hundredYear, 1_000_000, 0},
		"at the epoch, idle to the last µs":  {0, maxInstant, 1_000_000, 0},
		"at the last instant, at once":       {maxInstant, 0, 0, hundredYear},
		"one period before the last instant": {maxInstant - 3_155_760_000, 3_155_760_000, 1, hundredYear - 3_155_760_000},
	} {
		d := newKey(k.algorithm, k.limit)
		d.take(c.drained, 1_000_000)
		if got := d.peek(c.drained+c.after, 0); got.Remaining != c.remaining || got.ResetAfter.Microseconds() != c.reset {
			t.Errorf("%s: got %+v want %d remaining and %d µs to reset", name, got, c.remaining, c.reset)
		}
	}
	if got, want := k.take(maxInstant, 1_000_000).ResetAfter.Microseconds()+maxInstant, int64(maxExact); got != want || k.state.A != want {
		t.Errorf("drained at the last instant: full at %d, want %d, the last whole number below 2^53; state %v", got, want, k.state)
	}
}

func TestLongIdleKeyIsUnused(t *testing.T) { // T20
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		for _, l := range edgeLimits {
			if !accepts(a, l) {
				continue
			}
			k := newKey(a, l)
			k.take(0, k.remaining(0))
			for _, now := range []int64{hundredYear, maxInstant} {
				if fresh := newKey(a, l); k.observed(now) != fresh.observed(now) {
					t.Errorf("%v, drained at 0, at %d:\ngot  %swant %s", k, now, k.observed(now), fresh.observed(now))
				}
			}
		}
	})
}

func TestNewRejectsOutOfRangeLimits(t *testing.T) { // T20, T21, T22
	for field, limits := range map[string][]headgate.Limit{
		"rate": {
			{},
			{Rate: 0, Period: time.Second},
			{Rate: -1, Period: time.Second},
			{Rate: math.MinInt64, Period: time.Second},
			{Rate: 1 << 53, Period: time.Second}, // TestLargeRatesRequireACounter has the other bounds
			{Rate: math.MaxInt64, Period: time.Second, Burst: math.MaxInt64},
		},
		"period": {
			{Rate: 1},
			{Rate: 1, Period: -time.Second},
			{Rate: 1, Period: time.Millisecond - 1},
			{Rate: 1, Period: time.Second + 1},
			{Rate: 1, Period: headgate.MaxPeriod + time.Microsecond},
			{Rate: 1, Period: math.MaxInt64},
			{Rate: 1, Period: math.MinInt64},
		},
		"burst": {
			{Rate: 1, Period: time.Second, Burst: -1},
			{Rate: 1, Period: time.Second, Burst: 1e9 + 1},
			{Rate: 1, Period: time.Second, Burst: math.MaxInt64},
			{Rate: 1, Period: time.Second, Burst: math.MinInt64},
		},
		"fill time": {
			{Rate: 1, Period: headgate.MaxPeriod, Burst: 100},
			{Rate: 1, Period: 24 * time.Hour, Burst: 36526},
			{Rate: 1, Period: 3_155_761 * time.Microsecond, Burst: 1e9},
			{Rate: 1, Period: headgate.MaxPeriod, Burst: 1e9},
		},
	} {
		for _, l := range limits {
			forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
				err := buildError(a, l)
				var refused *headgate.LimitError
				if !errors.Is(err, headgate.ErrInvalidLimit) || !errors.As(err, &refused) || refused.Field != field {
					t.Errorf("%+v: got error %v want one that names the %s", l, err, field)
				}
			})
		}
	}
}

func buildError(a algo.Algorithm, l headgate.Limit) (err error) {
	if a.New != nil {
		_, err = a.New(l)
	} else {
		_, err = a.NewLog(l)
	}
	return err
}

func TestQueueRequiresQueueingAlgorithm(t *testing.T) {
	l := headgate.Limit{Rate: 1, Period: time.Second, Queue: 3}
	for _, a := range algo.Rates() {
		if err := buildError(a, l); (err == nil) != a.Name.Queues() {
			t.Errorf("%s with a queue: got error %v", a.Name, err)
		}
	}
}

func TestCostAboveLimitIsNeverAllowed(t *testing.T) { // T23
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		k := newKey(a, headgate.MustParseLimit("10/s"))
		for _, used := range []int64{0, 4, 6} {
			k.take(year2026, used)
			for _, cost := range []int64{11, 12, 1e9, math.MaxInt32, maxExact, math.MaxInt64} {
				if d := k.take(year2026, cost); d.Allowed || !d.Never || d.RetryAfter != 0 {
					t.Errorf("%v: got %+v for %d units, want never", k, d, cost)
				}
			}
		}
		if d := k.take(year2026, 10); d.Allowed || d.Never || d.RetryAfter == 0 {
			t.Errorf("%v: got %+v for all 10 units, want a wait", k, d)
		}
	})
}

// TestRetryAfterOfDrainedLimit drains 10/s at a window boundary. When the first units are
// available again, and how many, was computed by hand.
func TestRetryAfterOfDrainedLimit(t *testing.T) { // T24, T25
	for name, back := range map[headgate.Algorithm]struct{ first, units int64 }{
		headgate.TokenBucket:         {100_000, 1},    // T
		headgate.TokenBucketInterval: {1_000_000, 10}, // the end of the interval
		headgate.FixedWindow:         {1_000_000, 10}, // the end of the window
		headgate.SlidingLog:          {1_000_000, 10}, // when they stop counting
		headgate.SlidingWindow:       {1_100_000, 1},  // 10·(1 − 0.1) + 1 = 10
		headgate.LeakyBucket:         {100_000, 1},    // T
	} {
		k := keyOf(t, name, "10/s")
		if k.allows(year2026, 11) || !k.allows(year2026, 10) {
			t.Errorf("%s 10/s, unused: want 10 allowed and 11 denied", name)
		}
		if d := k.take(year2026, 10); !d.Allowed || d.Remaining != 0 {
			t.Errorf("%s 10/s, cost 10: got %+v want allowed", name, d)
		}
		if got := k.take(year2026, 1).RetryAfter.Microseconds(); got != back.first {
			t.Errorf("%s 10/s, drained: got retry_after %d want %d", name, got, back.first)
		}
		if k.allows(year2026+back.first-1, 1) || k.remaining(year2026+back.first) != back.units {
			t.Errorf("%s 10/s, drained: want %d back at %d µs and none 1 µs earlier", name, back.units, back.first)
		}
	}
}

func TestStaleWindowIsNotNegative(t *testing.T) { // T27
	for _, name := range []headgate.Algorithm{headgate.SlidingWindow, headgate.FixedWindow, headgate.SlidingLog} {
		for _, idle := range []int64{1, 2, 3, 1000} {
			k := keyOf(t, name, "10/s")
			k.take(year2026+500_000, 10)
			now := year2026 + 500_000 + idle*second
			want := int64(10)
			if name == headgate.SlidingWindow && idle == 1 {
				want = 5 // half of the previous window still counts
			}
			if got := k.remaining(now); got != want {
				t.Errorf("%s 10/s, drained and idle for %d windows: got %d remaining want %d", name, idle, got, want)
			}
			if k.allows(now, want+1) || !k.take(now, want).Allowed || k.take(now, 1).Allowed {
				t.Errorf("%s 10/s, idle for %d windows: want %d units and no more", name, idle, want)
			}
		}
	}
}

// TestSlidingLogWithVaryingCosts compares the log with a reference that keeps every unit
// and counts all of them on each request.
func TestSlidingLogWithVaryingCosts(t *testing.T) { // T29
	a, err := algo.Named(headgate.SlidingLog)
	if err != nil {
		t.Fatal(err)
	}
	d := newGenerator(*seedFlag, 600)
	for range 200 {
		k := newKey(a, d.busyLimit(a))
		period := k.limit.Period.Microseconds()
		now, last := year2026, headgate.Decision{}
		var spent []int64 // the instant of each unit
		for range 200 {
			now = d.nextBusyInstant(now, k.limit, last)
			n := d.upTo(k.limit.Rate)
			counted := int64(0)
			for _, at := range spent {
				if now-at < period {
					counted++
				}
			}
			last = k.take(now, n)
			if want := n == 0 || counted+n <= k.limit.Rate; last.Allowed != want {
				t.Fatalf("%v: %d at %d with %d counted: got allowed=%t want %t", k, n, now, counted, last.Allowed, want)
			}
			for ; last.Allowed && n > 0; n-- {
				spent = append(spent, now)
			}
		}
	}
}

// TestRefundInNextWindow checks that units spent in an earlier window are not
// refunded in the current one.
func TestRefundInNextWindow(t *testing.T) { // T30
	for name, want := range map[headgate.Algorithm]int64{
		headgate.TokenBucket:         10, // the bucket was refilled
		headgate.TokenBucketInterval: 10,
		headgate.FixedWindow:         10,
		headgate.SlidingLog:          10,
		headgate.SlidingWindow:       10,
		headgate.LeakyBucket:         10,
	} {
		k := keyOf(t, name, "10/s")
		k.take(year2026, 10)
		now := year2026 + second
		if name == headgate.SlidingWindow {
			now += second
		}
		if got := k.refund(now, 10).Remaining; got != want {
			t.Errorf("%s 10/s: 10 spent, refunded a window later: got %d remaining want %d", name, got, want)
		}
		k.take(now, 10)
		if d := k.take(now, 1); d.Allowed {
			t.Errorf("%s 10/s: a unit is left after the refund: got %+v", name, d)
		}
	}
}

func TestRefundAboveSpentUnitsRefundsAll(t *testing.T) { // T30
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		for _, refund := range []int64{1, 4, 5, 1e9, maxExact} {
			k := newKey(a, headgate.MustParseLimit("10/s"))
			k.take(year2026, 4)
			if got, want := k.refund(year2026, refund).Remaining, min(10, 6+refund); got != want {
				t.Errorf("10/s, 4 spent, %d refunded: got %d remaining want %d", refund, got, want)
			}
		}
	})
}

// TestLimitChangeKeepsSpentUnits spends 6 of 10/s and then peeks under another limit
// at the same time, 300 ms into a window.
func TestLimitChangeKeepsSpentUnits(t *testing.T) { // T45
	const now = year2026 + 300_000
	for _, c := range []struct {
		name      headgate.Algorithm
		changed   string
		remaining int64
		reset     int64
	}{
		{headgate.TokenBucket, "20/s", 8, 600_000},           // 600 ms until full are 12 units of 50 ms
		{headgate.TokenBucket, "10/s burst 5", 0, 500_000},   // at most B·T
		{headgate.TokenBucket, "1/s burst 10", 9, 600_000},   // 600 ms are less than a unit
		{headgate.LeakyBucket, "20/s", 8, 600_000},           // the same arithmetic
		{headgate.TokenBucketInterval, "20/s", 4, 1_000_000}, // 4 tokens stay 4: 16 are missing, one refill
		{headgate.TokenBucketInterval, "10/s burst 3", 3, 0}, // at most B, which is full
		{headgate.FixedWindow, "20/s", 14, 700_000},
		{headgate.FixedWindow, "5/s", 0, 700_000},
		{headgate.FixedWindow, "10/3s", 4, 2_700_000}, // a window of 3 s begins with 2026
		{headgate.SlidingLog, "20/s", 14, 1_000_000},
		{headgate.SlidingLog, "5/s", 0, 1_000_000},
		{headgate.SlidingLog, "10/3s", 4, 3_000_000},
		{headgate.SlidingWindow, "20/s", 14, 1_700_000},
		{headgate.SlidingWindow, "5/s", 0, 1_700_000},
	} {
		k := keyOf(t, c.name, "10/s")
		k.take(now, 6)
		k.setLimit(headgate.MustParseLimit(c.changed))
		d := k.take(now, 0)
		if d.Remaining != c.remaining || d.ResetAfter.Microseconds() != c.reset {
			t.Errorf("%s, 6 spent under 10/s, then %s: got %+v want %d remaining and %d µs to reset", c.name, c.changed, d, c.remaining, c.reset)
		}
	}
}
