package model

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate"
)

// The timelines below are calculated by hand from the definitions of the algorithms.
// Times are in µs unless marked ms.

type request struct {
	verb string // take, peek, refund, reset
	at   int64
	cost int64
	want string // see line
}

const ms = 1000

// line formats a decision as in the tables.
func line(d headgate.Decision) string {
	text := "deny"
	switch {
	case d.Allowed:
		text = "allow"
	case d.Never:
		text = "never"
	}
	return fmt.Sprintf("%s left=%d retry=%d reset=%d delay=%d", text, d.Remaining,
		d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Delay.Microseconds())
}

func (r request) of(k *Key, l headgate.Limit) headgate.Decision {
	switch r.verb {
	case "take":
		return k.Take(l, r.at, r.cost)
	case "peek":
		return k.Peek(l, r.at, r.cost)
	case "refund":
		return k.Refund(l, r.at, r.cost)
	default:
		return k.Reset(l, r.at)
	}
}

func TestDecisionTimelines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		algorithm headgate.Algorithm
		limit     string
		requests  []request
	}{
		{"a bucket of 3 at 10 a second", headgate.TokenBucket, "10/s burst 3", []request{
			{"take", 0, 1, "allow left=2 retry=0 reset=100000 delay=0"},
			{"take", 0, 3, "deny left=2 retry=100000 reset=100000 delay=0"},
			{"peek", 99_999, 3, "deny left=2 retry=1 reset=1 delay=0"},
			{"take", 100 * ms, 3, "allow left=0 retry=0 reset=300000 delay=0"},
			{"take", 100 * ms, 1, "deny left=0 retry=100000 reset=300000 delay=0"},
			{"take", 100 * ms, 4, "never left=0 retry=0 reset=300000 delay=0"},
			{"take", 100 * ms, 0, "allow left=0 retry=0 reset=300000 delay=0"},
			{"refund", 100 * ms, 2, "allow left=2 retry=0 reset=100000 delay=0"},
			{"refund", 100 * ms, 99, "allow left=3 retry=0 reset=0 delay=0"},
		}},
		{"thirds of a second", headgate.GCRA, "3/s", []request{
			{"take", 0, 3, "allow left=0 retry=0 reset=1000000 delay=0"},
			{"peek", 0, 1, "deny left=0 retry=333334 reset=1000000 delay=0"}, // 333,333⅓
			{"peek", 333_333, 1, "deny left=0 retry=1 reset=666667 delay=0"},
			{"take", 333_334, 1, "allow left=0 retry=0 reset=1000000 delay=0"}, // full at 1,333,333⅓
			{"take", 666_666, 1, "deny left=0 retry=1 reset=666668 delay=0"},
			{"reset", 666_666, 0, "allow left=3 retry=0 reset=0 delay=0"},
		}},
		{"two tokens at the end of every second, at most three", headgate.TokenBucketInterval, "2/s burst 3", []request{
			{"take", 500 * ms, 3, "allow left=0 retry=0 reset=2000000 delay=0"},
			{"take", 500 * ms, 1, "deny left=0 retry=1000000 reset=2000000 delay=0"},
			{"take", 500 * ms, 3, "deny left=0 retry=2000000 reset=2000000 delay=0"},
			{"take", 1499 * ms, 1, "deny left=0 retry=1000 reset=1001000 delay=0"},
			{"take", 1500 * ms, 1, "allow left=1 retry=0 reset=1000000 delay=0"},
			{"take", 2600 * ms, 1, "allow left=2 retry=0 reset=1000000 delay=0"}, // full again: its intervals begin now
			{"refund", 2700 * ms, 5, "allow left=3 retry=0 reset=0 delay=0"},
			{"take", 2800 * ms, 4, "never left=3 retry=0 reset=0 delay=0"},
		}},
		{"windows of a second", headgate.FixedWindow, "3/s", []request{
			{"take", 900 * ms, 2, "allow left=1 retry=0 reset=100000 delay=0"},
			{"take", 900 * ms, 2, "deny left=1 retry=100000 reset=100000 delay=0"},
			{"take", 1000 * ms, 3, "allow left=0 retry=0 reset=1000000 delay=0"}, // the boundary attack
			{"refund", 1999 * ms, 1, "allow left=1 retry=0 reset=1000 delay=0"},
			{"peek", 950 * ms, 2, "deny left=1 retry=1050000 reset=1050000 delay=0"}, // the clock went back
			{"refund", 2000 * ms, 9, "allow left=3 retry=0 reset=0 delay=0"},
			{"take", 2000 * ms, 4, "never left=3 retry=0 reset=0 delay=0"},
		}},
		{"three in any second", headgate.SlidingLog, "3/s", []request{
			{"take", 0, 1, "allow left=2 retry=0 reset=1000000 delay=0"},
			{"take", 400 * ms, 2, "allow left=0 retry=0 reset=1000000 delay=0"},
			{"take", 500 * ms, 1, "deny left=0 retry=500000 reset=900000 delay=0"},
			{"take", 500 * ms, 2, "deny left=0 retry=900000 reset=900000 delay=0"},
			{"take", 999 * ms, 1, "deny left=0 retry=1000 reset=401000 delay=0"},
			{"take", 1000 * ms, 1, "allow left=0 retry=0 reset=1000000 delay=0"},
			{"refund", 1000 * ms, 2, "allow left=2 retry=0 reset=400000 delay=0"}, // the newest, then one of 0.4 s
			{"take", 700 * ms, 1, "allow left=1 retry=0 reset=1000000 delay=0"},
			{"take", 600 * ms, 1, "allow left=0 retry=0 reset=1100000 delay=0"}, // the clock went back: added at 0.7 s
			{"take", 1400 * ms, 9, "never left=1 retry=0 reset=300000 delay=0"},
		}},
		{"ten a second by two windows", headgate.SlidingWindow, "10/s", []request{
			{"take", 0, 10, "allow left=0 retry=0 reset=2000000 delay=0"},
			{"take", 0, 1, "deny left=0 retry=1100000 reset=2000000 delay=0"}, // 10·0.9 + 1
			{"take", 1_099_999, 1, "deny left=0 retry=1 reset=900001 delay=0"},
			{"take", 1100 * ms, 1, "allow left=0 retry=0 reset=1900000 delay=0"},
			{"take", 1500 * ms, 5, "deny left=4 retry=100000 reset=1500000 delay=0"}, // 10·0.5 + 1
			{"take", 1600 * ms, 5, "allow left=0 retry=0 reset=1400000 delay=0"},     // 10·0.4 + 6
			{"take", 1600 * ms, 10, "deny left=0 retry=1400000 reset=1400000 delay=0"},
			{"refund", 1600 * ms, 8, "allow left=6 retry=0 reset=400000 delay=0"}, // cur 0, prev 8: 8·0.4
			{"take", 5000 * ms, 11, "never left=10 retry=0 reset=0 delay=0"},
		}},
		{"a queue of two", headgate.LeakyBucket, "10/s queue 2", []request{
			{"take", 0, 1, "allow left=2 retry=0 reset=100000 delay=0"},
			{"take", 0, 1, "allow left=1 retry=0 reset=200000 delay=100000"},
			{"take", 0, 1, "allow left=0 retry=0 reset=300000 delay=200000"},
			{"take", 0, 1, "deny left=0 retry=100000 reset=300000 delay=0"},
			{"peek", 150 * ms, 1, "allow left=1 retry=0 reset=150000 delay=150000"},
			{"refund", 150 * ms, 1, "allow left=2 retry=0 reset=50000 delay=50000"},
			{"take", 150 * ms, 4, "never left=2 retry=0 reset=50000 delay=0"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k, l := NewKey(c.algorithm), headgate.MustParseLimit(c.limit)
			for i, r := range c.requests {
				if got := line(r.of(k, l)); got != r.want {
					t.Errorf("%d. %s %d at %d µs under %s:\ngot  %s\nwant %s", i+1, r.verb, r.cost, r.at, c.limit, got, r.want)
				}
			}
		})
	}
}

func TestDecisionLimit(t *testing.T) {
	t.Parallel()
	for algorithm, want := range map[headgate.Algorithm]int64{
		"": 7, headgate.GCRA: 7, headgate.TokenBucketInterval: 7, headgate.LeakyBucket: 7,
		headgate.FixedWindow: 5, headgate.SlidingLog: 5, headgate.SlidingWindow: 5,
	} {
		if got := NewKey(algorithm).Peek(headgate.MustParseLimit("5/s burst 7"), 0, 0).Limit; got != want {
			t.Errorf("%q under 5/s burst 7: got limit %d want %d", algorithm, got, want)
		}
	}
}

// TestChangedLimit changes the limit after 4 of 10/1m were spent at 30 s. A bucket is
// then full again at 54 s.
func TestChangedLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		algorithm headgate.Algorithm
		to        string
		want      string
	}{
		{headgate.TokenBucket, "20/1m", "allow left=12 retry=0 reset=24000000 delay=0"},
		{headgate.TokenBucket, "10/10s", "allow left=0 retry=0 reset=10000000 delay=0"}, // at most t + B·T
		{headgate.LeakyBucket, "10/10s", "allow left=0 retry=0 reset=10000000 delay=10000000"},
		{headgate.TokenBucketInterval, "20/1m", "allow left=6 retry=0 reset=60000000 delay=0"},
		{headgate.TokenBucketInterval, "5/1m", "allow left=5 retry=0 reset=0 delay=0"},
		{headgate.FixedWindow, "20/1m", "allow left=16 retry=0 reset=30000000 delay=0"},
		{headgate.SlidingLog, "3/1m", "allow left=0 retry=0 reset=60000000 delay=0"},
		{headgate.SlidingWindow, "5/1m", "allow left=1 retry=0 reset=90000000 delay=0"},
	} {
		k := NewKey(c.algorithm)
		k.Take(headgate.MustParseLimit("10/1m"), 30_000*ms, 4)
		if got := line(k.Peek(headgate.MustParseLimit(c.to), 30_000*ms, 0)); got != c.want {
			t.Errorf("%s from 10/1m to %s:\ngot  %s\nwant %s", c.algorithm, c.to, got, c.want)
		}
	}
	k := NewKey(headgate.TokenBucket)
	k.Take(headgate.MustParseLimit("10/1m"), 0, 10)
	if got, want := line(k.Refund(headgate.MustParseLimit("10/10s"), 0, 1)), "allow left=1 retry=0 reset=9000000 delay=0"; got != want {
		t.Errorf("a refund reduces TAT to at most t + B·T of the new limit:\ngot  %s\nwant %s", got, want)
	}
	k = NewKey(headgate.TokenBucket)
	k.Take(headgate.MustParseLimit("3/s"), 0, 1) // full at 333,333⅓
	if got, want := line(k.Take(headgate.MustParseLimit("1/s"), 0, 1)), "deny left=0 retry=333334 reset=333334 delay=0"; got != want {
		t.Errorf("a fraction of a microsecond rounds up when the limit changes:\ngot  %s\nwant %s", got, want)
	}
}

// TestDenialUnderChangedLimitLeavesKey denies requests under other limits, alone and
// together with another key. Afterwards the key is as before under its own limit.
func TestDenialUnderChangedLimitLeavesKey(t *testing.T) {
	t.Parallel()
	own := headgate.MustParseLimit("5/1h")
	for _, a := range Algorithms() {
		k, want := NewKey(a), NewKey(a)
		k.Take(own, 0, 5)
		want.Take(own, 0, 5)
		full := NewKey(headgate.FixedWindow)
		full.Take(headgate.MustParseLimit("1/1h"), 0, 1)
		for _, other := range []headgate.Limit{headgate.MustParseLimit("2/1h"), headgate.MustParseLimit("900/1h")} {
			k.Take(other, 1, 901)
			k.Take(other, 2, 0)
			TakeAll(3, []Debit{{k, "other", other, 1}, {full, "full", headgate.MustParseLimit("1/1h"), 1}})
			k.Refund(other, 4, 0)
		}
		if got, want := line(k.Peek(own, 5, 1)), line(want.Peek(own, 5, 1)); got != want {
			t.Errorf("%s: after denials under other limits:\ngot  %s\nwant %s", a, got, want)
		}
	}
}

func TestTakeAllAndPeekAll(t *testing.T) {
	t.Parallel()
	wide, narrow, other := NewKey(headgate.TokenBucket), NewKey(headgate.FixedWindow), NewKey(headgate.FixedWindow)
	charges := func(a, b, c int64) []Debit {
		return []Debit{
			{wide, "wide", headgate.MustParseLimit("10/s"), a},
			{narrow, "narrow", headgate.MustParseLimit("3/s"), b},
			{narrow, "narrow", headgate.MustParseLimit("3/s"), c},
			{other, "other", headgate.MustParseLimit("3/s"), a},
		}
	}
	for _, c := range []struct {
		name     string
		charges  []Debit
		peek     bool
		want     string
		deniedBy []string
	}{
		{"all fit", charges(1, 1, 1), false, "allow left=1 retry=0 reset=1000000 delay=0", nil},
		{"a key that is charged twice holds 1", charges(1, 1, 1), false, "deny left=1 retry=1000000 reset=1000000 delay=0", []string{"narrow"}},
		{"two deny", charges(3, 1, 1), false, "deny left=1 retry=1000000 reset=1000000 delay=0", []string{"narrow", "other"}},
		{"more than it can hold", charges(1, 2, 2), false, "never left=1 retry=0 reset=1000000 delay=0", []string{"narrow", "narrow"}},
		{"a look", charges(2, 1, 0), true, "allow left=1 retry=0 reset=1000000 delay=0", nil},
		{"nothing was spent by all that", charges(2, 1, 0), false, "allow left=0 retry=0 reset=1000000 delay=0", nil},
	} {
		d := TakeAll
		if c.peek {
			d = PeekAll
		}
		if got := d(0, c.charges); line(got) != c.want || !slices.Equal(got.DeniedBy, c.deniedBy) {
			t.Errorf("%s:\ngot  %s %q\nwant %s %q", c.name, line(got), got.DeniedBy, c.want, c.deniedBy)
		}
	}
}

func TestHasExpiredUnits(t *testing.T) {
	t.Parallel()
	second := headgate.MustParseLimit("2/s")
	for _, c := range []struct {
		algorithm headgate.Algorithm
		at        int64
		want      bool
	}{
		{headgate.TokenBucket, 999_999, false},
		{headgate.TokenBucket, 1_000_000, true},
		{headgate.SlidingLog, 999_999, false},
		{headgate.SlidingLog, 1_000_000, true},
		{headgate.SlidingWindow, 1_000_000, true},
		{headgate.TokenBucketInterval, 999_999, false},
		{headgate.TokenBucketInterval, 1_000_000, true},
	} {
		k := NewKey(c.algorithm)
		k.Take(second, 0, 2)
		if got := k.HasExpiredUnits(second, c.at); got != c.want {
			t.Errorf("%s, 2 of 2/s spent at 0: HasExpiredUnits at %d: got %v want %v", c.algorithm, c.at, got, c.want)
		}
		if want := c.want && c.algorithm != headgate.SlidingWindow; k.Unused(second, c.at) != want {
			t.Errorf("%s, 2 of 2/s spent at 0: Unused at %d: got %v want %v", c.algorithm, c.at, !want, want)
		}
	}
}

func TestUnknownAlgorithmPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("NewKey of an unknown algorithm: got a key want a panic")
		}
	}()
	NewKey("leaky_sieve")
}
