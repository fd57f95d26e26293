package memstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/memstore"
)

func newLimiter(t testing.TB, s headgate.Store, name string, a headgate.Algorithm, limit string) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(s, headgate.Policy{Name: name, Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func allow(t testing.TB, l *headgate.Limiter, now headgate.Instant, key string, cost int64) headgate.Decision {
	t.Helper()
	d, err := l.AllowAt(t.Context(), now.Time(), key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func names() []headgate.Algorithm {
	var list []headgate.Algorithm
	for _, a := range algo.Rates() {
		list = append(list, a.Name)
	}
	return list
}

const start headgate.Instant = 1_700_000_000_000_000

// atLeast returns full, or short with -short.
func atLeast(short, full int) int {
	if testing.Short() {
		return short
	}
	return full
}

// TestFloodDoesNotEvictSpentKeys floods a small store with keys used once. A key that
// was denied stays denied. T13
func TestFloodDoesNotEvictSpentKeys(t *testing.T) {
	for _, a := range names() {
		t.Run(string(a), func(t *testing.T) {
			s := memstore.New(&memstore.Options{MaxEntries: 1000})
			l := newLimiter(t, s, "p", a, "5/1h")
			for i := range 300 {
				for range 5 {
					allow(t, l, start, fmt.Sprint("victim", i), 1)
				}
			}
			for i := range atLeast(20_000, 100_000) {
				allow(t, l, start+headgate.Instant(i), fmt.Sprint("flood", i), 1)
			}
			if got := s.Stats().Overflowed; got == 0 {
				t.Error("decisions on overflow buckets: got 0: the flood did not fill the store")
			}
			for i := range 300 {
				if d := allow(t, l, start+100_000, fmt.Sprint("victim", i), 1); d.Allowed {
					t.Fatalf("victim %d, 5 of 5 spent: got %+v want denied", i, d)
				}
			}
		})
	}
}

// TestFloodDoesNotChangeAnswersForBusyKeys compares every answer with that of a store
// without a flood. T13
func TestFloodDoesNotChangeAnswersForBusyKeys(t *testing.T) {
	for _, a := range names() {
		t.Run(string(a), func(t *testing.T) {
			flooded := memstore.New(&memstore.Options{MaxEntries: 10_000})
			l := newLimiter(t, flooded, "p", a, "10/1m")
			unloaded := newLimiter(t, memstore.New(nil), "p", a, "10/1m")
			for i := range atLeast(20_000, 200_000) {
				now := start + headgate.Instant(i)*50
				if i%10 == 0 {
					key := fmt.Sprint("busy", i/10%100)
					if got, want := allow(t, l, now, key, 1), allow(t, unloaded, now, key, 1); !equalDecisions(got, want) {
						t.Fatalf("request %d for %s: got %+v want %+v", i, key, got, want)
					}
				}
				allow(t, l, now, fmt.Sprint("flood", i), 1)
			}
			if st := flooded.Stats(); st.Overflowed == 0 {
				t.Errorf("the flood did not fill the store: %+v", st)
			}
		})
	}
}

func equalDecisions(a, b headgate.Decision) bool {
	a.DeniedBy, b.DeniedBy = nil, nil
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// TestOverflowNeverAdmitsMoreThanTheLimit replays, for each key alone, the requests
// that a full store admitted: a limiter with enough room must admit them, too. Other
// keys may set the phase of an interval bucket, so that algorithm is checked against
// the bound B + ceil(s/I)·R.
func TestOverflowNeverAdmitsMoreThanTheLimit(t *testing.T) {
	for _, a := range names() {
		t.Run(string(a), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 8))
			full := memstore.New(&memstore.Options{MaxEntries: 16})
			l := newLimiter(t, full, "p", a, "7/1s")
			alone := newLimiter(t, memstore.New(nil), "p", a, "7/1s")
			spent := map[string][]int64{}
			now := start
			for range atLeast(10_000, 300_000) {
				now += headgate.Instant(rng.Int64N(2000))
				key, cost := fmt.Sprint(rng.IntN(200)), 1+rng.Int64N(3)
				if !allow(t, l, now, key, cost).Allowed {
					continue
				}
				if a.Refill() == headgate.RefillStepped {
					for range cost {
						spent[key] = append(spent[key], int64(now))
					}
				} else if d := allow(t, alone, now, key, cost); !d.Allowed {
					t.Fatalf("key %s at %d, cost %d: the full store admitted it, its own limiter decides %+v", key, now, cost, d)
				}
			}
			for key, at := range spent {
				checkIntervalBound(t, key, at, 7, 1_000_000)
			}
			if full.Stats().Overflowed == 0 {
				t.Error("the store was never full")
			}
		})
	}
}

func checkIntervalBound(t *testing.T, key string, at []int64, rate, interval int64) {
	t.Helper()
	for i := range at {
		for j := i; j < len(at) && at[j]-at[i] < 3*interval; j++ {
			span := at[j] - at[i]
			if limit := rate + (span/interval+1)*rate; int64(j-i+1) > limit {
				t.Fatalf("key %s: %d units in a span of %d µs; the bound is %d", key, j-i+1, span, limit)
			}
		}
	}
}

// TestKeysGetSlotsAgainAfterFlood checks that answers are exact again.
func TestKeysGetSlotsAgainAfterFlood(t *testing.T) {
	for _, a := range names() {
		t.Run(string(a), func(t *testing.T) {
			s := memstore.New(&memstore.Options{MaxEntries: 100})
			l := newLimiter(t, s, "p", a, "5/1s")
			for i := range 10_000 {
				allow(t, l, start, fmt.Sprint("flood", i), 1)
			}
			later := start + 10_000_000
			for i := range 50 {
				if d := allow(t, l, later, fmt.Sprint("user", i), 1); !d.Allowed || d.Remaining != 4 {
					t.Fatalf("user %d after the flood: got %+v want allowed, remaining 4", i, d)
				}
			}
		})
	}
}

// TestFullOverflowTableReturnsErrStoreFull checks that a store without any room returns
// an error instead of admitting requests without counting them.
func TestFullOverflowTableReturnsErrStoreFull(t *testing.T) {
	for _, a := range names() {
		t.Run(string(a), func(t *testing.T) {
			s := memstore.New(&memstore.Options{MaxEntries: 8})
			var full error
			for i := 0; i < 100_000 && full == nil; i++ {
				l := newLimiter(t, s, fmt.Sprint("policy", i/50), a, "1/1h")
				_, full = l.AllowAt(t.Context(), start.Time(), fmt.Sprint(i), 1)
			}
			if !errors.Is(full, headgate.ErrStoreFull) {
				t.Errorf("error when nothing has room: got %v want ErrStoreFull", full)
			}
		})
	}
}

// TestRefundDoesNotRestoreOverflowBucket checks that units spent by other keys are not
// refunded.
func TestRefundDoesNotRestoreOverflowBucket(t *testing.T) {
	for _, a := range names() {
		t.Run(string(a), func(t *testing.T) {
			s := memstore.New(&memstore.Options{MaxEntries: 8})
			l := newLimiter(t, s, "p", a, "3/1h")
			for i := range 10_000 {
				allow(t, l, start, fmt.Sprint("flood", i), 1)
			}
			var full string
			for i := range 1000 {
				key := fmt.Sprint("late", i)
				if !allow(t, l, start, key, 1).Allowed {
					full = key
					break
				}
			}
			for _, verb := range []string{"refund", "reset"} {
				var err error
				if verb == "refund" {
					_, err = l.RefundAt(t.Context(), start.Time(), full, 3)
				} else {
					_, err = l.ResetAt(t.Context(), start.Time(), full)
				}
				if err != nil {
					t.Fatal(err)
				}
				if d := allow(t, l, start, full, 1); d.Allowed {
					t.Errorf("%s of a key that shares an overflow bucket: got %+v want it denied as before", verb, d)
				}
			}
		})
	}
}

// TestFullLogMergesUnitsIntoNewestEntry checks that a log without room for another
// entry counts every unit, some of them for longer.
func TestFullLogMergesUnitsIntoNewestEntry(t *testing.T) {
	s := memstore.New(&memstore.Options{MaxEntries: 50}) // 9600 bytes of logs
	l := newLimiter(t, s, "p", headgate.SlidingLog, "1000/1s")
	admitted := 0
	for i := range 2000 {
		if allow(t, l, start+headgate.Instant(i)*499, "key", 1).Allowed {
			admitted++
		}
	}
	if admitted != 1000 {
		t.Errorf("admitted in one period: got %d want 1000", admitted)
	}
	if st := s.Stats(); st.LogEntries > 600 {
		t.Errorf("log entries: got %d want at most 600, the bound", st.LogEntries)
	}
	if d := allow(t, l, start+2_100_000, "key", 1); !d.Allowed {
		t.Errorf("a period after the last admission: got %+v want allowed", d)
	}
}

func TestMemoryStaysWithinMaxBytes(t *testing.T) {
	for _, bytes := range []int64{64 << 10, 1 << 20, int64(atLeast(500_000, 5_000_000))} {
		s := memstore.New(&memstore.Options{MaxBytes: bytes})
		bucket := newLimiter(t, s, "p", headgate.TokenBucket, "5/1h")
		log := newLimiter(t, s, "q", headgate.SlidingLog, "100/1h")
		for i := range int(bytes / 20) {
			allow(t, bucket, start, fmt.Sprint(i), 1)
			allow(t, log, start+headgate.Instant(i), fmt.Sprint(i%1000), 1)
		}
		if st := s.Stats(); st.Bytes > bytes {
			t.Errorf("bytes allocated by a store bounded to %d: got %d (%+v)", bytes, st.Bytes, st)
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	for _, o := range []memstore.Options{{MaxEntries: -1}, {MaxEntries: 1 << 40}, {MaxBytes: -5}, {MaxBytes: 100}} {
		if o.Validate() == nil {
			t.Errorf("Validate of %+v: got nil want an error", o)
		}
	}
	for _, o := range []memstore.Options{{}, {MaxEntries: 1}, {MaxBytes: 64 << 10}, {MaxEntries: 5, MaxBytes: 1 << 30}} {
		if err := o.Validate(); err != nil {
			t.Errorf("Validate of %+v: got %v want nil", o, err)
		}
	}
}

// TestOverflowedCountsRequestsWithSeveralLimits floods a full store with keys used once,
// under one limit and under two. A key that was never used is denied only because it
// shares an overflow bucket or log, so every such denial must be counted.
func TestOverflowedCountsRequestsWithSeveralLimits(t *testing.T) {
	for _, a := range names() {
		for _, limits := range [][]string{{"5/1h"}, {"5/1h", "20/24h"}} {
			t.Run(fmt.Sprint(a, limits), func(t *testing.T) {
				s := memstore.New(&memstore.Options{MaxEntries: 4000})
				p := headgate.Policy{Name: "p", Algorithm: a}
				for _, l := range limits {
					p.Limits = append(p.Limits, headgate.MustParseLimit(l))
				}
				l, err := headgate.New(s, p, nil)
				if err != nil {
					t.Fatal(err)
				}
				denied := uint64(0)
				for i := range atLeast(5_000, 50_000) {
					if !allow(t, l, start+headgate.Instant(i), fmt.Sprint("flood", i), 1).Allowed {
						denied++
					}
				}
				if got := s.Stats().Overflowed; denied == 0 || got < denied {
					t.Errorf("counted decisions on overflow buckets and logs: got %d want at least the %d denials", got, denied)
				}
			})
		}
	}
}
