package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

var ctx = context.Background()

// open returns a store around inner, or around a new store in memory if inner is nil. It
// is closed at the end of the test.
func open(t testing.TB, inner headgate.LeaseStore, opts *lease.Options) *lease.Store {
	t.Helper()
	if inner == nil {
		inner = memstore.New(nil)
	}
	s, err := lease.New(inner, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ruleOf returns a leased rule of a token bucket. Half of the capacity may be on lease.
func ruleOf(limit string) headgate.Rule {
	return headgate.Rule{
		Scope: "s", Name: "limit", Limit: headgate.MustParseLimit(limit), Algorithm: headgate.TokenBucket,
		Lease: headgate.LeaseSettings{Share: 50, TTL: time.Second},
	}
}

func bind(t testing.TB, s headgate.Store, rule headgate.Rule) headgate.Bound {
	t.Helper()
	b, err := s.Bind(rule)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func take(t testing.TB, b headgate.Bound, key string, cost int64) headgate.Decision {
	t.Helper()
	d, err := b.Apply(ctx, headgate.StoreClock, key, headgate.Take, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// warm asks for one unit until the key is leased, and returns the number of units.
func warm(t testing.TB, b headgate.Bound, key string) (spent int64) {
	t.Helper()
	for range 100_000 {
		if spent++; take(t, b, key, 1).Leased {
			return spent
		}
		time.Sleep(time.Microsecond)
	}
	t.Fatal("the key is not leased")
	return 0
}

func remaining(t testing.TB, b headgate.Bound, key string) int64 {
	t.Helper()
	d, err := b.Apply(ctx, headgate.StoreClock, key, headgate.Peek, 1)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// A key is leased after three requests within a TTL, and not before.
func TestOnlyHotKeysAreLeased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		b := bind(t, s, ruleOf("1000/1h"))
		for i := range 20 {
			if d := take(t, b, "cold", 1); d.Leased || !d.Allowed {
				t.Fatalf("request %d: got %+v want a decision of the store", i, d)
			}
			time.Sleep(time.Second / 2)
		}
		for i := range 6 {
			d := take(t, b, "hot", 1)
			synctest.Wait()
			if want := i >= 4; d.Leased != want || !d.Allowed {
				t.Errorf("request %d: got %+v want leased: %v", i+1, d, want)
			}
		}
		if st := s.Stats(); st.Keys != 1 || st.Decisions != 2 || st.Calls != 1 || st.UnspentUnits == 0 {
			t.Errorf("got %+v want 1 key, 2 decisions, 1 call and some units", st)
		}
	})
}

// Rules that are not leased, or cannot be, have the Bound of the inner store.
func TestRulesThatAreNotLeased(t *testing.T) {
	t.Parallel()
	inner := memstore.New(nil)
	s := open(t, inner, nil)
	for name, rule := range map[string]headgate.Rule{
		"no settings":         {Scope: "s", Limit: headgate.MustParseLimit("100/1s")},
		"leaky bucket":        {Scope: "s", Limit: headgate.MustParseLimit("100/1s queue 5"), Algorithm: headgate.LeakyBucket, Lease: headgate.LeaseSettings{Share: 50}},
		"few slots":           {Scope: "s", Limit: headgate.MustParseLimit("9 concurrent"), Algorithm: headgate.Concurrency, Lease: headgate.LeaseSettings{Share: 10}},
		"small capacity":      {Scope: "s", Limit: headgate.MustParseLimit("9/1s"), Lease: headgate.LeaseSettings{Share: 10}},
		"log of short period": {Scope: "s", Limit: headgate.MustParseLimit("100/100ms"), Algorithm: headgate.SlidingLog, Lease: headgate.LeaseSettings{Share: 10}},
	} {
		plain := rule
		plain.Lease = headgate.LeaseSettings{}
		got, want := fmt.Sprintf("%T", bind(t, s, rule)), fmt.Sprintf("%T", bind(t, inner, plain))
		if got != want {
			t.Errorf("%s: got %s want %s", name, got, want)
		}
	}
	if _, err := s.Bind(headgate.Rule{Limit: headgate.MustParseLimit("9/1s"), Lease: headgate.LeaseSettings{Share: 51}}); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("a share of 51%%: got %v want ErrInvalidPolicy", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if _, err := lease.New(nil, nil); err == nil {
		t.Error("no inner store: got no error")
	}
	inner := memstore.New(nil)
	defer inner.Close()
	for _, o := range []lease.Options{{MaxKeys: -1}, {MaxKeys: 1_000_001}, {MaxInFlight: -1}, {MaxInFlight: 1 << 17}} {
		if _, err := lease.New(inner, &o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}

// The limit is used up exactly, whatever part of it was on lease. Then requests are
// denied in memory, with the time at which they are allowed.
func TestLimitIsUsedUpExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		b := bind(t, s, ruleOf("1000/1h burst 1000"))
		allowed, last := 0, headgate.Decision{}
		for range 3000 {
			if last = take(t, b, "key", 1); last.Allowed {
				allowed++
			}
			time.Sleep(time.Microsecond)
		}
		if allowed != 1000 {
			t.Errorf("%d requests were allowed, want 1000", allowed)
		}
		if !last.Leased || last.RetryAfter <= 0 || last.Remaining != 0 || len(last.DeniedBy) != 1 {
			t.Errorf("got %+v want a denial from memory", last)
		}
		time.Sleep(last.RetryAfter)
		if d := take(t, b, "key", 1); !d.Allowed {
			t.Errorf("after RetryAfter: got %+v want it allowed", d)
		}
	})
}

// A request that the lease does not cover, and a request with an instant, are decided by
// the store.
func TestRequestsOfStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		b := bind(t, s, ruleOf("1000/1h"))
		warm(t, b, "key")
		if d := take(t, b, "key", 600); d.Leased || !d.Allowed {
			t.Errorf("cost 600: got %+v want it allowed by the store", d)
		}
		if d := take(t, b, "key", 1001); !d.Never {
			t.Errorf("cost 1001: got %+v want never", d)
		}
		d, err := b.Apply(ctx, headgate.InstantOf(time.Now()), "key", headgate.Take, 1)
		if err != nil || d.Leased {
			t.Errorf("with an instant: got %+v, %v want a decision of the store", d, err)
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := b.Apply(canceled, headgate.StoreClock, "key", headgate.Take, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: got %v want context.Canceled", err)
		}
	})
}

// A key without further requests is released: its units are available to others.
func TestIdleKeyIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		s := open(t, inner, &lease.Options{MaxKeys: 1})
		rule := ruleOf("1000/1h")
		b := bind(t, s, rule)
		spent := warm(t, b, "key")
		for range 10 { // the table is full
			if take(t, b, "other", 1).Leased {
				t.Fatal("a second key is leased, want at most 1")
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		rule.Lease = headgate.LeaseSettings{}
		if got := remaining(t, bind(t, inner, rule), "key"); got != 1000-spent || s.Stats().Keys != 0 {
			t.Errorf("got %d remaining units and %d keys want %d and none", got, s.Stats().Keys, 1000-spent)
		}
		warm(t, b, "other")
	})
}

// Close and Reset return the units of leases.
func TestCloseAndResetReleaseLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		defer inner.Close()
		s, err := lease.New(&link{LeaseStore: inner, shared: &shared{store: inner}, random: newRandom(1)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		rule := ruleOf("1000/1h")
		b := bind(t, s, rule)
		warm(t, b, "reset")
		if d, err := b.Apply(ctx, headgate.StoreClock, "reset", headgate.Reset, 0); err != nil || d.Remaining != 1000 {
			t.Errorf("reset: got %+v, %v want 1000 remaining units", d, err)
		}
		spent := map[string]int64{}
		for i := range 50 {
			key := fmt.Sprint(i)
			spent[key] = warm(t, b, key)
		}
		s.Close()
		rule.Lease = headgate.LeaseSettings{}
		plain := bind(t, inner, rule)
		for key, n := range spent {
			if got := remaining(t, plain, key); got != 1000-n {
				t.Errorf("key %s: %d units remain want %d", key, got, 1000-n)
			}
		}
	})
}

// A lease is used while the store is unavailable, until it ends. Then the failure mode
// applies.
func TestLeaseOutlivesOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &link{LeaseStore: memstore.New(nil), random: newRandom(1)}
		l.shared = &shared{store: l.LeaseStore}
		outer, err := fallback.New(l, &fallback.Options{Observer: fallback.LogEvents(slog.New(slog.DiscardHandler))})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, outer, nil)
		defer l.LeaseStore.Close()
		rule := ruleOf("1000000/1h")
		rule.OnStoreError = headgate.FailOpen
		b := bind(t, s, rule)
		warm(t, b, "key")
		for range 200 { // the demand is measured
			take(t, b, "key", 1)
			time.Sleep(time.Millisecond)
		}
		l.down.Store(true)
		began := time.Now()
		for take(t, b, "key", 1).Leased {
			time.Sleep(10 * time.Millisecond)
		}
		if lasted := time.Since(began); lasted < time.Second/4 || lasted > 1100*time.Millisecond {
			t.Errorf("the lease lasted %v want 250ms to 1s and a lost message", lasted)
		}
		if d := take(t, b, "key", 1); !d.Allowed || d.Degraded == headgate.ReasonNone {
			t.Errorf("after the lease: got %+v want the failure mode", d)
		}
		l.down.Store(false)
		time.Sleep(2 * time.Second)
		warm(t, b, "key")
	})
}

// withoutLeases is a store that does not support leases.
type withoutLeases struct{ headgate.HoldStore }

// If the inner store does not support leases, its own decisions remain.
func TestInnerStoreWithoutLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer, err := fallback.New(withoutLeases{memstore.New(nil)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, outer, nil)
		b := bind(t, s, ruleOf("1000/1h"))
		for i := range 100 {
			if d := take(t, b, "key", 1); d.Leased || d.Remaining != int64(999-i) {
				t.Fatalf("got %+v want decisions of the store", d)
			}
			synctest.Wait()
		}
		if st := s.Stats(); st.Keys != 0 || st.Calls != 1 {
			t.Errorf("got %+v want one call and no key", st)
		}
	})
}

// Many goroutines use one key and many other keys, while leases are released.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := open(t, nil, &lease.Options{MaxKeys: 8})
	rule := ruleOf("5000/366d")
	rule.Lease.TTL = 10 * time.Millisecond
	b := bind(t, s, rule)
	var all sync.WaitGroup
	var mu sync.Mutex
	allowed := map[string]int{}
	for g := range 16 {
		all.Go(func() {
			for i := range 4000 {
				key := fmt.Sprint((g + i/100) % 20)
				d, err := b.Apply(ctx, headgate.StoreClock, key, headgate.Take, 1)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					mu.Lock()
					allowed[key]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for key, n := range allowed {
		if n > 5000 {
			t.Errorf("key %s: %d requests were allowed, want at most 5000", key, n)
		}
	}
}
