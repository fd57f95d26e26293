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

// What a call took that waits for something else comes back by itself while it waits. If it is given up then, what is there is
// others', and stays theirs.
func TestWhatHasComeBackIsNotGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		window := policy("short", "5/10s")
		window.Algorithm = headgate.FixedWindow
		log := policy("short", "5/10s")
		log.Algorithm = headgate.SlidingLog
		for _, short := range []headgate.Policy{policy("short", "5/10s"), window, log} {
			for name, start := range map[string]func(headgate.Store) *world{
				"server": func(store headgate.Store) *world {
					l, err := grpclimit.NewServer(store, nil, same(short), same(leaky("queue", "1/1h queue 3")))
					if err != nil {
						t.Fatal(err)
					}
					return serve(t, &service{}, l)
				},
				"client": func(store headgate.Store) *world {
					c, err := grpclimit.NewClient(store, nil, same(short), same(policy("long", "1/1h")))
					if err != nil {
						t.Fatal(err)
					}
					return waiting(t, &service{}, c)
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
				gone := make(chan error, 1)
				go func() { _, _, err := w.empty(ctx); gone <- err }()
				time.Sleep(time.Minute)
				if _, err := limiter.AllowN(t.Context(), "", 3); err != nil {
					t.Fatal(err)
				}
				cancel()
				mustCode(t, name, <-gone, codes.Canceled)
				synctest.Wait()
				if d, err := limiter.PeekN(t.Context(), "", 0); err != nil || d.Remaining != 2 {
					t.Errorf("%s, %s: got %+v, error %v want 2 remaining", name, short.Algorithm, d, err)
				}
				w.stop()
			}
		}
	})
}

// A window may end while a call waits, however short its wait is beside the window.
func TestWhatAWindowGaveIsKeptByWhoWaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		window := policy("window", "5/1h")
		window.Algorithm = headgate.FixedWindow
		store := memstore.New(nil)
		limiter, err := headgate.New(store, window, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := grpclimit.NewClient(store, nil, same(window), same(policy("long", "1/1h")))
		if err != nil {
			t.Fatal(err)
		}
		w := waiting(t, &service{}, c)
		defer w.stop()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - time.Second)))
		w.empty(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = w.empty(ctx) // refused at once, so its unit is back
		mustCode(t, "too late", err, codes.ResourceExhausted)
		if d, err := limiter.PeekN(t.Context(), "", 0); err != nil || d.Remaining != 4 {
			t.Errorf("refused at once: got %+v, error %v want 4 remaining", d, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		time.AfterFunc(time.Second, func() { limiter.AllowN(context.Background(), "", 3) })
		_, _, err = w.empty(ctx)
		mustCode(t, "given up", err, codes.Canceled)
		if d, err := limiter.PeekN(t.Context(), "", 0); err != nil || d.Remaining != 2 {
			t.Errorf("given up in the next window: got %+v, error %v want 2 remaining", d, err)
		}
	})
}
