package grpclimit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

// The limit regains the units of a call while the call waits for another charge. If the
// call is canceled then, nothing is refunded.
func TestRegainedUnitsAreNotRefunded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		window := policy("short", "5/10s")
		window.Algorithm = headgate.FixedWindow
		log := policy("short", "5/10s")
		log.Algorithm = headgate.SlidingLog
		for _, short := range []headgate.Policy{policy("short", "5/10s"), window, log} {
			for name, start := range map[string]func(headgate.Store) *testServer{
				"server": func(store headgate.Store) *testServer {
					l, err := grpclimit.NewServer(store, nil, globalCharge(short), globalCharge(leaky("queue", "1/1h queue 3")))
					if err != nil {
						t.Fatal(err)
					}
					return serve(t, &service{}, l)
				},
				"client": func(store headgate.Store) *testServer {
					c, err := grpclimit.NewClient(store, nil, globalCharge(short), globalCharge(policy("long", "1/1h")))
					if err != nil {
						t.Fatal(err)
					}
					return serveClient(t, &service{}, c)
				},
			} {
				store := memstore.New(nil)
				limiter, err := headgate.New(store, short, nil)
				if err != nil {
					t.Fatal(err)
				}
				w := start(store)
				_, _, err = w.empty(t.Context())
				mustCode(t, name, err, codes.OK)
				ctx, cancel := context.WithCancel(t.Context())
				canceled := make(chan error, 1)
				go func() { _, _, err := w.empty(ctx); canceled <- err }()
				time.Sleep(time.Minute)
				if _, err := limiter.AllowN(t.Context(), "", 3); err != nil {
					t.Fatal(err)
				}
				cancel()
				mustCode(t, name, <-canceled, codes.Canceled)
				synctest.Wait()
				if d, err := limiter.PeekN(t.Context(), "", 0); err != nil || d.Remaining != 2 {
					t.Errorf("%s, %s: got %+v, error %v want 2 remaining", name, short.Algorithm, d, err)
				}
				w.stop()
			}
		}
	})
}

// If the window ends while a call waits, the units of the call are not refunded.
func TestUnitsOfEndedWindowAreNotRefunded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		window := policy("window", "5/1h")
		window.Algorithm = headgate.FixedWindow
		store := memstore.New(nil)
		limiter, err := headgate.New(store, window, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := grpclimit.NewClient(store, nil, globalCharge(window), globalCharge(policy("long", "1/1h")))
		if err != nil {
			t.Fatal(err)
		}
		w := serveClient(t, &service{}, c)
		defer w.stop()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - time.Second)))
		w.empty(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = w.empty(ctx) // fails immediately, so its unit is refunded
		mustCode(t, "too late", err, codes.ResourceExhausted)
		if d, err := limiter.PeekN(t.Context(), "", 0); err != nil || d.Remaining != 4 {
			t.Errorf("failed immediately: got %+v, error %v want 4 remaining", d, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		time.AfterFunc(time.Second, func() { limiter.AllowN(context.Background(), "", 3) })
		_, _, err = w.empty(ctx)
		mustCode(t, "canceled", err, codes.Canceled)
		if d, err := limiter.PeekN(t.Context(), "", 0); err != nil || d.Remaining != 2 {
			t.Errorf("canceled in the next window: got %+v, error %v want 2 remaining", d, err)
		}
	})
}

// A call that fails while it waits for a charge has the same effect on an earlier charge
// as if it had not been made, whatever others have spent since. A refund would leave 10.
func TestChargesBeforeFailedWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, bucket := memstore.New(nil), policy("bucket", "1/s burst 10")
		first := globalCharge(bucket)
		first.Cost = func(context.Context, grpclimit.Call) int64 { return 10 }
		w := sides["client"](t, store, nil, &service{}, first, globalCharge(policy("long", "1/1h")))
		defer w.stop()
		_, _, err := w.empty(t.Context())
		mustCode(t, "the first call", err, codes.OK)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() { _, _, err := w.empty(ctx); failed <- err }()
		time.Sleep(8 * time.Second)
		other, err := headgate.New(store, bucket, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := other.AllowN(t.Context(), "", 5); err != nil || !d.Allowed {
			t.Fatalf("others: got %+v, error %v want 5 units", d, err)
		}
		time.Sleep(time.Second)
		cancel()
		mustCode(t, "cancelled", <-failed, codes.Canceled)
		synctest.Wait()
		if got := remaining(t, store, bucket); got != 6 {
			t.Errorf("got %d units left want 6", got)
		}
	})
}

// Charges that are all available are made in one store operation. Otherwise a call whose
// last charge is denied holds the first one, and cancels it.
func TestStoreCallsOfSeveralCharges(t *testing.T) {
	t.Parallel()
	store := &countingStore{HoldStore: memstore.New(nil)}
	w := sides["client"](t, store, nil, &service{}, globalCharge(policy("first", "5/366d")), globalCharge(policy("second", "2/366d")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, want := range []int64{1, 2, 4} { // the third tries all, and holds the first; a cancel has one key
		_, _, err := w.empty(ctx)
		if code := map[bool]codes.Code{true: codes.ResourceExhausted, false: codes.OK}[i == 2]; status.Code(err) != code {
			t.Errorf("call %d: got %v want %v", i+1, err, code)
		}
		if got := store.calls.Load(); got != want {
			t.Errorf("after call %d: got %d store operations want %d", i+1, got, want)
		}
	}
	if got := remaining(t, store.HoldStore, policy("first", "5/366d")); got != 3 {
		t.Errorf("got %d units left want 3", got)
	}
}

// countingStore counts the operations that involve several keys or holds.
type countingStore struct {
	headgate.HoldStore
	calls atomic.Int64
}

func (s *countingStore) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	s.calls.Add(1)
	return s.HoldStore.ApplyAll(ctx, now, ops, peek, decisions)
}

func (s *countingStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	s.calls.Add(1)
	return s.HoldStore.ApplyHolds(ctx, now, verb, ttl, ops, results)
}
