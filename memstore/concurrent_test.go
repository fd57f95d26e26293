package memstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// contended are limits that change one word of a slot (10/s: a unit takes whole
// microseconds) and both words (7/s: it does not).
var contended = []string{"10/1s", "7/1s burst 10"}

// Trap T1 of docs/internals/guarantees.md.
func TestConcurrentTakesOfOneKeyAllowExactlyTheLimit(t *testing.T) {
	for _, a := range names() {
		for _, limit := range contended {
			t.Run(fmt.Sprint(a, " ", limit), func(t *testing.T) {
				if a.Windowed() {
					limit, _, _ = strings.Cut(limit, " burst")
				}
				l := newLimiter(t, memstore.New(nil), "p", a, limit)
				want := headgate.MustParseLimit(limit).Capacity()
				for round := range 100 {
					var admitted atomic.Int64
					var all sync.WaitGroup
					for range 64 {
						all.Go(func() {
							if d, err := l.AllowAt(context.Background(), start.Time(), fmt.Sprint(round), 1); err == nil && d.Allowed {
								admitted.Add(1)
							}
						})
					}
					all.Wait()
					if got := admitted.Load(); got != want {
						t.Fatalf("round %d: admitted %d of 64 want %d", round, got, want)
					}
				}
			})
		}
	}
}

// TestConcurrentTakesDuringTableGrowthLoseNothing takes from some keys while takes from
// other keys grow the table and relocate keys.
func TestConcurrentTakesDuringTableGrowthLoseNothing(t *testing.T) {
	for _, limit := range contended {
		s := memstore.New(&memstore.Options{MaxEntries: 20_000})
		l := newLimiter(t, s, "p", headgate.TokenBucket, limit)
		var admitted [200]atomic.Int64
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range 40_000 {
					k := (i + g*50) % len(admitted)
					if d, err := l.AllowAt(context.Background(), start.Time(), fmt.Sprint("shared", k), 1); err == nil && d.Allowed {
						admitted[k].Add(1)
					}
					if i%10 == 0 {
						_, _ = l.AllowAt(context.Background(), start.Time(), fmt.Sprint("own", g, i), 1)
					}
				}
			})
		}
		all.Wait()
		for k := range admitted {
			if got := admitted[k].Load(); got != 10 {
				t.Errorf("limit %s, key %d: admitted %d want 10", limit, k, got)
			}
		}
	}
}

// TestAllowAllIsAtomicUnderConcurrency runs transactions over several keys and single
// takes of the same keys, in a store too small for all of them. Nothing deadlocks, no
// key exceeds its limit, and a denied request spends nothing.
func TestAllowAllIsAtomicUnderConcurrency(t *testing.T) {
	for _, a := range names() {
		t.Run(string(a), func(t *testing.T) {
			s := memstore.New(&memstore.Options{MaxEntries: 64})
			one, two := newLimiter(t, s, "one", a, "20/1h"), newLimiter(t, s, "two", headgate.SlidingLog, "30/1h")
			var spent [300]atomic.Int64
			var all sync.WaitGroup
			for g := range 8 {
				all.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(g), 9))
					for range atLeast(300, 5000) {
						x, y := rng.IntN(len(spent)), rng.IntN(len(spent))
						d, err := headgate.AllowAllAt(context.Background(), start.Time(),
							headgate.Check{Limiter: one, Key: fmt.Sprint(x), Cost: 1},
							headgate.Check{Limiter: two, Key: fmt.Sprint(x, "log"), Cost: 1},
							headgate.Check{Limiter: one, Key: fmt.Sprint(y), Cost: 1})
						if err == nil && d.Allowed {
							spent[x].Add(1)
							spent[y].Add(1)
						}
						if d, err := one.AllowAt(context.Background(), start.Time(), fmt.Sprint(x), 1); err == nil && d.Allowed {
							spent[x].Add(1)
						}
					}
				})
			}
			all.Wait()
			total := int64(0)
			for k := range spent {
				if n := spent[k].Load(); n > 20 {
					t.Errorf("key %d: %d units admitted of 20", k, n)
				}
				total += spent[k].Load()
			}
			if total == 0 {
				t.Error("nothing was admitted")
			}
		})
	}
}

// Trap T3 of docs/internals/guarantees.md.
func TestAllowAllDenialSpendsNothing(t *testing.T) {
	for _, a := range names() {
		t.Run(string(a), func(t *testing.T) {
			s := memstore.New(nil)
			roomy, tight := newLimiter(t, s, "roomy", a, "10/1h"), newLimiter(t, s, "tight", a, "1/1h")
			checks := []headgate.Check{{Limiter: roomy, Key: "k", Cost: 3}, {Limiter: tight, Key: "k", Cost: 1}}
			for i, want := range []struct {
				allowed   bool
				remaining int64
			}{{true, 7}, {false, 7}} {
				d, err := headgate.AllowAllAt(t.Context(), start.Time(), checks...)
				if err != nil || d.Allowed != want.allowed || d.Remaining != 0 {
					t.Fatalf("request %d: got %+v, %v want allowed %v, remaining 0", i, d, err, want.allowed)
				}
				if got := allow(t, roomy, start, "k", 0).Remaining; got != want.remaining {
					t.Errorf("remaining of the roomy limit after request %d: got %d want %d", i, got, want.remaining)
				}
			}
		})
	}
}

// TestPeekAllChangesNothing checks the keys and the number of slots in use.
func TestPeekAllChangesNothing(t *testing.T) {
	for _, a := range names() {
		s := memstore.New(nil)
		l := newLimiter(t, s, "p", a, "3/1h")
		allow(t, l, start, "known", 1)
		before := s.Stats()
		for range 5 {
			d, err := headgate.PeekAllAt(t.Context(), start.Time(), headgate.Check{Limiter: l, Key: "known", Cost: 2}, headgate.Check{Limiter: l, Key: "new", Cost: 3})
			if err != nil || !d.Allowed {
				t.Fatalf("%s: peek of 2 of 2 and 3 of 3: got %+v, %v want allowed", a, d, err)
			}
		}
		if after := s.Stats(); after.Keys != before.Keys {
			t.Errorf("%s: slots in use after peeks: got %d want %d", a, after.Keys, before.Keys)
		}
		if d := allow(t, l, start, "known", 0); d.Remaining != 2 {
			t.Errorf("%s: remaining after peeks: got %d want 2", a, d.Remaining)
		}
	}
}

// TestDecisionsDoNotAllocate makes takes of known and of new keys, denials and peeks.
func TestDecisionsDoNotAllocate(t *testing.T) {
	s := memstore.New(&memstore.Options{MaxEntries: 10_000})
	ctx, i := context.Background(), 0
	keys := make([]string, 500)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	for _, a := range names() {
		if a == headgate.SlidingLog {
			continue // it allocates its entries one by one
		}
		l := newLimiter(t, s, string(a), a, "7/1h")
		_, _ = l.Allow(ctx, "known")
		allocs := testing.AllocsPerRun(500, func() {
			_, _ = l.Allow(ctx, "known")
			_, _ = l.PeekN(ctx, "known", 2)
			_, _ = l.Allow(ctx, keys[i%len(keys)])
			i++
		})
		if allocs >= 0.2 { // the table grows now and then
			t.Errorf("%s: allocations for three decisions: got %v want 0", a, allocs)
		}
	}
}

// TestNewKeyReusesExpiredSlotOfSameRequest contains the expired key, too, whose slot
// the new key takes.
func TestNewKeyReusesExpiredSlotOfSameRequest(t *testing.T) {
	for range 200 {
		s := memstore.New(&memstore.Options{MaxEntries: 1})
		l := newLimiter(t, s, "p", headgate.TokenBucket, "1/1s")
		for i := range 8 {
			allow(t, l, start, fmt.Sprint("old", i), 1)
		}
		for i := range 8 {
			d, err := headgate.AllowAllAt(t.Context(), (start + 10_000_000 + headgate.Instant(i)*2_000_000).Time(),
				headgate.Check{Limiter: l, Key: fmt.Sprint("new", i), Cost: 1}, headgate.Check{Limiter: l, Key: fmt.Sprint("old", i), Cost: 1})
			if err != nil || !d.Allowed {
				t.Fatalf("request %d: got %+v, %v want allowed", i, d, err)
			}
		}
	}
}

// TestAllowAllGrowsTable checks that a request that finds its part of a small table
// full grows the table, and uses no overflow bucket while there is room.
func TestAllowAllGrowsTable(t *testing.T) {
	for range atLeast(3, 60) {
		s := memstore.New(nil)
		one, two := newLimiter(t, s, "one", headgate.TokenBucket, "1/1h"), newLimiter(t, s, "two", headgate.TokenBucket, "1/1h")
		for i := range 8000 {
			key := fmt.Sprint(i)
			d, err := headgate.AllowAllAt(t.Context(), start.Time(), headgate.Check{Limiter: one, Key: key, Cost: 1}, headgate.Check{Limiter: two, Key: key, Cost: 1})
			if err != nil || !d.Allowed {
				t.Fatalf("request %d for 2 new keys: got %+v, %v want allowed", i, d, err)
			}
		}
		if got := s.Stats().Overflowed; got != 0 {
			t.Fatalf("decisions on overflow buckets with 16,000 keys of 1,000,000: got %d want 0", got)
		}
	}
}
