package grpclimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

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
