package grpclimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

func leasedPolicy(name, limit string, share int) headgate.Policy {
	p := policy(name, limit)
	p.Lease = headgate.LeaseSettings{Share: share}
	return p
}

// leasedStore returns a store with leases around the inner one. Close it before the end
// of the test.
func leasedStore(t *testing.T, inner headgate.LeaseStore) *lease.Store {
	t.Helper()
	s, err := lease.New(inner, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustBeLeased fails if fewer than n calls were decided in memory.
func mustBeLeased(t *testing.T, side string, store *lease.Store, n int64) {
	t.Helper()
	if got := store.Stats().Decisions; got < n {
		t.Errorf("%s: %d operations were made in memory, want at least %d", side, got, n)
	}
}

// A server with leases decides most calls in memory, and allows the limit. A client
// waits, for which it reserves units at the store. Its calls and those of the server
// share the limit.
func TestLeasedRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := leasedStore(t, memstore.New(nil))
		defer store.Close()
		charge := grpclimit.Charge{Policy: leasedPolicy("api", "300/24h", 10), Key: grpclimit.Global()}
		server := sides["server"](t, store, nil, &service{}, charge)
		defer server.stop()
		client := sides["client"](t, store, nil, &service{}, charge)
		defer client.stop()
		allowed := 0
		for i := range 400 {
			_, _, err := server.empty(t.Context())
			switch status.Code(err) {
			case codes.OK:
				allowed++
			default:
				mustCode(t, "server", err, codes.ResourceExhausted)
				if retry, _ := details(err); retry == nil || retry.RetryDelay.AsDuration() <= 0 {
					t.Fatalf("the denial %v has no time to retry", err)
				}
			}
			if i%4 == 0 && i < 200 {
				_, _, err := client.empty(t.Context())
				mustCode(t, "client", err, codes.OK)
				allowed++
			}
			time.Sleep(time.Millisecond)
		}
		if allowed != 300 {
			t.Errorf("%d calls were allowed, want 300", allowed)
		}
		mustBeLeased(t, "server", store, 200)
		begun := time.Now()
		_, _, err := client.empty(t.Context())
		if took := time.Since(begun); err != nil || took < 4*time.Minute {
			t.Errorf("a client at the limit waited for %v, error %v; want about 288 s for one unit", took, err)
		}
	})
}

// A call whose cost is adjusted goes to the store as a hold, also while units of the same
// key are in memory. In the end exactly the final costs are spent.
func TestAdjustCostOfLeasedKey(t *testing.T) {
	t.Parallel()
	for side, start := range sides {
		synctest.Test(t, func(t *testing.T) {
			inner, p := memstore.New(nil), leasedPolicy("api", "1000/366d", 20)
			store := leasedStore(t, inner)
			defer store.Close()
			plain := start(t, store, nil, &service{}, grpclimit.Charge{Policy: p, Key: grpclimit.Global()})
			defer plain.stop()
			final := start(t, store, nil, &service{}, adjusted(p, 5, finally(1)))
			defer final.stop()
			for range 100 {
				for _, w := range []*testServer{plain, plain, final} {
					_, _, err := w.empty(t.Context())
					mustCode(t, side, err, codes.OK)
				}
				time.Sleep(time.Millisecond)
			}
			if side == "server" { // a client reserves units at the store
				mustBeLeased(t, side, store, 100)
			}
			time.Sleep(time.Second) // the units in memory are returned within one TTL
			if got := remaining(t, inner, p); got != 1000-200-100 {
				t.Errorf("%s: %d units left want 700: 200 calls cost 1, and 100 calls 1 in the end", side, got)
			}
		})
	}
}

// Calls hold slots in memory. Never more than the limit run at a time. In the end all
// slots are free.
func TestLeasedSlots(t *testing.T) {
	t.Parallel()
	for side, start := range sides {
		synctest.Test(t, func(t *testing.T) {
			inner, p := memstore.New(nil), leasedPolicy("work", "8 concurrent", 50)
			store := leasedStore(t, inner)
			defer store.Close()
			var running, most, denied atomic.Int64
			handle := func(context.Context) error {
				for n, old := running.Add(1), most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				time.Sleep(5 * time.Millisecond)
				running.Add(-1)
				return nil
			}
			w := start(t, store, nil, &service{unary: handle}, grpclimit.Charge{Policy: p, Key: grpclimit.Global()})
			defer w.stop()
			call := func(callers, times int) {
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						for range times {
							if _, _, err := w.empty(t.Context()); status.Code(err) == codes.ResourceExhausted {
								denied.Add(1)
							}
							time.Sleep(time.Millisecond)
						}
					})
				}
				all.Wait()
			}
			call(3, 50) // fewer than the limit, so slots can be leased
			mustBeLeased(t, side, store, 50)
			call(12, 20)
			if most.Load() != 8 || denied.Load() == 0 {
				t.Errorf("%s: %d calls ran at a time, and %d were denied; want 8 and some denials", side, most.Load(), denied.Load())
			}
			time.Sleep(5 * time.Second) // the slots in memory are returned
			if got := remaining(t, inner, p); got != 8 {
				t.Errorf("%s: %d slots are free, want 8", side, got)
			}
		})
	}
}
