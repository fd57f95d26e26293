package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func applyAll(t *testing.T, s headgate.Store, peek bool, ops ...headgate.Op) (ds []headgate.Decision) {
	t.Helper()
	ds = make([]headgate.Decision, len(ops))
	if err := s.ApplyAll(ctx, headgate.StoreClock, ops, peek, ds); err != nil {
		t.Fatal(err)
	}
	return ds
}

// If one op is denied, the units of the others are available again, in memory and in the
// store.
func TestAllOrNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		leased := bind(t, s, ruleOf("1000/1h"))
		plain := bind(t, s, headgate.Rule{Scope: "plain", Name: "plain", Limit: headgate.MustParseLimit("2/1h")})
		warm(t, leased, "key")
		before := remaining(t, leased, "key")
		ops := []headgate.Op{{Bound: leased, Key: "key", Cost: 1}, {Bound: plain, Key: "key", Cost: 1}}
		for range 2 {
			if ds := applyAll(t, s, false, ops...); !ds[0].Allowed || !ds[0].Leased || !ds[1].Allowed || ds[1].Leased {
				t.Errorf("got %+v want both allowed, the first from memory", ds)
			}
		}
		for range 3 {
			ds := applyAll(t, s, false, ops...)
			if !ds[0].Allowed || ds[1].Allowed || ds[0].Remaining != before-2 {
				t.Errorf("got %+v want the second denied, and %d units", ds, before-2)
			}
		}
		if got := remaining(t, leased, "key"); got != before-2 {
			t.Errorf("%d units remain want %d", got, before-2)
		}
		if ds := applyAll(t, s, true, ops[0]); !ds[0].Leased || ds[0].Remaining != before-2 {
			t.Errorf("peek: got %+v want %d units from memory", ds, before-2)
		}
		stranger := bind(t, open(t, nil, nil), ruleOf("1000/1h"))
		err := s.ApplyAll(ctx, headgate.StoreClock, []headgate.Op{ops[0], {Bound: stranger}}, false, make([]headgate.Decision, 2))
		if !errors.Is(err, headgate.ErrInvalidPolicy) {
			t.Errorf("a Bound of another store: got %v want ErrInvalidPolicy", err)
		}
		if got := remaining(t, leased, "key"); got != before-2 {
			t.Errorf("after an error %d units remain want %d", got, before-2)
		}
	})
}

// slowStore delays ApplyAll, so that a renewal is made in the meantime.
type slowStore struct {
	headgate.LeaseStore
	between func()
}

func (s *slowStore) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, ds []headgate.Decision) error {
	s.between()
	return s.LeaseStore.ApplyAll(ctx, now, ops, peek, ds)
}

// Units that a renewal has reported as spent are not returned: the store would grant them
// again.
func TestUndoAfterRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := &slowStore{LeaseStore: memstore.New(nil)}
		s := open(t, inner, nil)
		leased := bind(t, s, ruleOf("1000/366d"))
		plain := bind(t, s, headgate.Rule{Scope: "plain", Limit: headgate.MustParseLimit("1/366d"), Algorithm: headgate.FixedWindow})
		take(t, plain, "key", 1)
		spent := warm(t, leased, "key")
		inner.between = func() { // the timer renews the lease
			calls := s.Stats().Calls
			for s.Stats().Calls == calls {
				take(t, leased, "key", 1)
				spent++
				time.Sleep(10 * time.Millisecond)
			}
			synctest.Wait()
		}
		ds := applyAll(t, s, false, headgate.Op{Bound: leased, Key: "key", Cost: 1}, headgate.Op{Bound: plain, Key: "key", Cost: 1})
		if !ds[0].Leased || ds[1].Allowed {
			t.Fatalf("got %+v want the second op denied", ds)
		}
		for take(t, leased, "key", 1).Allowed {
			spent++
			time.Sleep(time.Microsecond)
		}
		// One unit was reported as spent and was not used.
		if spent != 999 {
			t.Errorf("%d units were spent want 999", spent)
		}
	})
}

// Holds, debits and refunds are operations of the store.
func TestHoldsOfLeasedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		limiter, err := headgate.New(s, headgate.Policy{
			Name: "p", Limits: []headgate.Limit{headgate.MustParseLimit("1000/1h")}, Lease: headgate.LeaseSettings{Share: 10},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if d, err := limiter.Allow(ctx, "key"); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			synctest.Wait()
		}
		hold, err := limiter.Hold(ctx, "key", 100, time.Minute)
		if err != nil || !hold.OK() || hold.Decision().Leased {
			t.Fatalf("hold: got %+v, %v want it allowed by the store", hold, err)
		}
		if _, err := hold.Commit(ctx, 40); err != nil {
			t.Fatal(err)
		}
		if _, err := limiter.RefundN(ctx, "key", 10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // the key is released
		if d, err := limiter.Peek(ctx, "key"); err != nil || d.Remaining != 1000-20-40+10 {
			t.Errorf("got %+v, %v want %d units", d, err, 1000-20-40+10)
		}
	})
}

var _ headgate.HoldStore = (*lease.Store)(nil)
