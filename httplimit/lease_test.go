package httplimit_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

// leased returns a store with leases around the inner one, as a process of its own has
// it. Close it before the end of the test.
func leased(t *testing.T, inner headgate.LeaseStore) *lease.Store {
	t.Helper()
	s, err := lease.New(inner, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func leasedPolicy(name, limit string, share int) headgate.Policy {
	p := policy(name, limit)
	p.Lease = headgate.LeaseSettings{Share: share}
	return p
}

// leasedEvents returns how many of the requests were decided in memory.
func leasedEvents(events []headgate.Event) (n int) {
	for _, e := range events {
		if e.Verb == "take" && e.Decision.Leased {
			n++
		}
	}
	return n
}

// Two processes with leases answer most requests from memory. Together they allow the
// limit. The header fields have the values of the decisions.
func TestLeasedRate(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		inner, p, recorded := memstore.New(nil), leasedPolicy("api", "1000/24h", 10), &eventRecorder{}
		var handlers [2]http.Handler
		for i := range handlers {
			store := leased(t, inner)
			defer store.Close()
			handlers[i] = newMiddlewareOn(t, store, &httplimit.Options{Observer: recorded}, httplimit.Charge{Policy: p})(ok)
		}
		allowed, requests := 0, 1300
		for i := range requests {
			w := serve(handlers[i%2], request("203.0.113.9:1"))
			e := recorded.all()[i]
			if want := fmt.Sprintf(";r=%d;", e.Decision.Remaining); !strings.Contains(w.Header().Get("RateLimit")+";", want) {
				t.Fatalf("request %d: got RateLimit %q, want %q in it", i, w.Header().Get("RateLimit"), want)
			}
			switch retry := w.Header().Get("Retry-After"); {
			case w.Code == http.StatusOK && e.Decision.Allowed:
				allowed++
			case w.Code != http.StatusTooManyRequests || e.Decision.Allowed || retry == "" || retry == "0":
				t.Fatalf("request %d: got %d, Retry-After %q and the decision %+v", i, w.Code, retry, e.Decision)
			}
			time.Sleep(time.Millisecond)
		}
		if allowed != 1000 {
			t.Errorf("%d requests were allowed, want 1000", allowed)
		}
		if n := leasedEvents(recorded.all()); n < requests/2 {
			t.Errorf("%d of %d requests were decided in memory, want at least half", n, requests)
		}
	})
}

// A cost that is adjusted goes to the store as a hold, also for a key of which the
// process has units in memory. In the end exactly the final costs are spent.
func TestAdjustCostOfLeasedKey(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		inner, p, recorded := memstore.New(nil), leasedPolicy("api", "1000/366d", 20), &eventRecorder{}
		store, opts := leased(t, inner), &httplimit.Options{Observer: recorded}
		defer store.Close()
		plain := newMiddlewareOn(t, store, opts, httplimit.Charge{Policy: p})(ok)
		final := newMiddlewareOn(t, store, nil, httplimit.Charge{
			Policy: p, Cost: costs(5), AdjustCost: func(r httplimit.Response) int64 { return int64(r.Status - http.StatusOK) },
		})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
		for range 100 {
			for _, h := range []http.Handler{plain, plain, final} {
				if w := serve(h, request("203.0.113.9:1")); w.Code >= http.StatusBadRequest {
					t.Fatalf("got %d want an allowed request", w.Code)
				}
			}
			time.Sleep(time.Millisecond)
		}
		if n := leasedEvents(recorded.all()); n < 100 {
			t.Errorf("%d of 200 requests were decided in memory, want at least half", n)
		}
		time.Sleep(time.Second) // the units in memory are returned within one TTL
		if got := remaining(t, inner, p, "203.0.113.9"); got != 1000-200-100 {
			t.Errorf("%d units left want 700: 200 requests cost 1, and 100 requests 1 in the end", got)
		}
	})
}

// Requests of two processes hold slots in memory. Never more than the limit run at a
// time. In the end all slots are free.
func TestLeasedSlots(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		inner, p, recorded := memstore.New(nil), leasedPolicy("work", "8 concurrent", 50), &eventRecorder{}
		var running, most, denied atomic.Int64
		handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			for n, old := running.Add(1), most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
			running.Add(-1)
		})
		var handlers [2]http.Handler
		for i := range handlers {
			store := leased(t, inner)
			defer store.Close()
			charge := httplimit.Charge{Policy: p, Key: httplimit.Global()}
			handlers[i] = newMiddlewareOn(t, store, &httplimit.Options{Observer: recorded}, charge)(handler)
		}
		send := func(callers, times int) {
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for range times {
						if w := serve(handlers[i%2], request("203.0.113.9:1")); w.Code == http.StatusTooManyRequests {
							denied.Add(1)
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			all.Wait()
		}
		send(3, 100) // fewer than the limit, so slots can be leased
		if n := leasedEvents(recorded.all()); n < 100 {
			t.Errorf("%d of 300 requests had a slot in memory, want at least 100", n)
		}
		send(16, 20)
		if most.Load() != 8 || denied.Load() == 0 {
			t.Errorf("%d handlers ran at a time, and %d requests were denied; want 8 handlers and some denials", most.Load(), denied.Load())
		}
		time.Sleep(5 * time.Second) // the slots in memory are returned
		if got := remaining(t, inner, p, ""); got != 8 {
			t.Errorf("%d slots are free, want 8", got)
		}
	})
}
