package grpclimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
)

// A denied call is not adjusted and charges nothing. The observer receives one event for
// a cost that has changed.
func TestAdjustCostOfDeniedCall(t *testing.T) {
	t.Parallel()
	store, p, recorded := memstore.New(nil), policy("p", "10/1h"), &eventRecorder{}
	w := sides["server"](t, store, recorded, &service{}, adjusted(p, 7, finally(4)))
	for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		_, _, err := w.empty(t.Context())
		mustCode(t, []string{"first", "second"}[i], err, want)
	}
	w.stop()
	events := recorded.all()
	if got := remaining(t, store, p); got != 6 || len(events) != 3 {
		t.Fatalf("got %d units left and events %+v want 6 and three", got, events)
	}
	if e := events[1]; e.Verb != "commit" || e.Cost != 4 || e.Decision.Remaining != 6 {
		t.Errorf("got event %+v want the commit of 4", e)
	}
}

// The charge is final if the key has too many open holds, and an open hold is extended
// while the call is in progress.
func TestAdjustCostOpenHolds(t *testing.T) {
	t.Parallel()
	for side, start := range sides {
		synctest.Test(t, func(t *testing.T) {
			store, p := memstore.New(nil), policy("p", "100/366d")
			p.Holds.MaxOpen = 1
			end := make(chan struct{})
			w := start(t, store, nil, &service{unary: func(context.Context) error { <-end; return nil }}, adjusted(p, 10, finally(1)))
			defer w.stop()
			done := make(chan error, 2)
			for range 2 {
				go func() { _, _, err := w.empty(t.Context()); done <- err }()
				synctest.Wait()
			}
			time.Sleep(10 * time.Minute)
			for range 2 {
				end <- struct{}{}
				mustCode(t, side, <-done, codes.OK)
			}
			synctest.Wait()
			if got := remaining(t, store, p); got != 89 {
				t.Errorf("%s: got %d units left want 89: one of two charges was adjusted", side, got)
			}
		})
	}
}

func TestAdjustCostIsRefused(t *testing.T) {
	t.Parallel()
	charge := adjusted(policy("p", "10/1h"), 1, finally(0))
	perMessage, queued := charge, charge
	perMessage.PerMessage = true
	queued.Policy = leaky("q", "10/1h queue 5")
	plain := struct{ headgate.Store }{memstore.New(nil)}
	for name, c := range map[string]struct {
		store   headgate.Store
		charges []grpclimit.Charge
		client  bool // whether a client refuses it, too
	}{
		"PerMessage":                {memstore.New(nil), []grpclimit.Charge{perMessage}, true},
		"PerMessage of the second":  {memstore.New(nil), []grpclimit.Charge{slotsCharge(), perMessage}, true},
		"its policy has a queue":    {memstore.New(nil), []grpclimit.Charge{queued}, true},
		"another policy has one":    {memstore.New(nil), []grpclimit.Charge{charge, globalCharge(leaky("q", "10/1h queue 5"))}, false},
		"a store without holds":     {plain, []grpclimit.Charge{charge}, true},
		"slots after others, queue": {memstore.New(nil), []grpclimit.Charge{globalCharge(leaky("q", "10/1h queue 5")), slotsCharge()}, false},
	} {
		if _, err := grpclimit.NewServer(c.store, nil, c.charges...); !errors.Is(err, grpclimit.ErrInvalidOptions) {
			t.Errorf("server, %s: got error %v want ErrInvalidOptions", name, err)
		}
		_, err := grpclimit.NewClient(c.store, nil, c.charges...)
		if c.client && !errors.Is(err, grpclimit.ErrInvalidOptions) || !c.client && err != nil {
			t.Errorf("client, %s: got error %v want one: %v", name, err, c.client)
		}
	}
}

// A call whose store is unavailable is treated by the failure mode. The commit of a call
// that the mode open has allowed changes nothing, and its event has the units that no
// limit has counted.
func TestAdjustCostFailureModes(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	for mode, uncounted := range map[headgate.OnStoreError]int64{headgate.FailOpen: 3, headgate.FailLocal: 0, headgate.FailClosed: 0} {
		p, recorded := policy("adjusted "+string(mode), "10/1h"), &eventRecorder{}
		p.OnStoreError = mode
		redis.Start()
		store := openRedis(t, redis)
		l, err := grpclimit.NewServer(store, &grpclimit.Options{Observer: recorded}, adjusted(p, 2, finally(5)))
		if err != nil {
			t.Fatal(err)
		}
		w := serve(t, &service{}, l)
		_, _, err = w.empty(t.Context())
		mustCode(t, "Redis decides", err, codes.OK)
		if got := remaining(t, store, p); got != 5 {
			t.Errorf("%s: got %d units left want 5", mode, got)
		}
		redis.Kill()
		_, _, err = w.empty(t.Context())
		if want := map[bool]codes.Code{true: codes.Unavailable, false: codes.OK}[mode == headgate.FailClosed]; status.Code(err) != want {
			t.Errorf("%s: got %v want %v", mode, err, want)
		}
		w.stop()
		events := recorded.all()
		last := events[len(events)-1]
		if mode == headgate.FailClosed {
			if last.Err == nil || last.Verb != "take" {
				t.Errorf("closed: got last event %+v want the failed take", last)
			}
			continue
		}
		if last.Verb != "commit" || last.Decision.Degraded == headgate.ReasonNone || last.Uncounted != uncounted || last.Err != nil {
			t.Errorf("%s: got last event %+v want a degraded commit with %d units not counted", mode, last, uncounted)
		}
	}
}

// If the store fails after the charge, the charge stays and the call succeeds.
func TestAdjustCostStoreError(t *testing.T) {
	t.Parallel()
	for side, start := range sides {
		store, recorded := memstore.New(nil), &eventRecorder{}
		work := func(context.Context) error { return store.Close() }
		w := start(t, store, recorded, &service{unary: work}, adjusted(policy("p", "10/1h"), 2, finally(1)))
		_, _, err := w.empty(t.Context())
		mustCode(t, side, err, codes.OK)
		w.stop()
		events := recorded.all()
		if last := events[len(events)-1]; last.Verb != "commit" || !errors.Is(last.Err, headgate.ErrClosed) {
			t.Errorf("%s: got last event %+v want the failed commit", side, last)
		}
	}
}

// A retried call is charged and adjusted again.
func TestAdjustCostOfRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, p := memstore.New(nil), policy("p", "100/1h")
		c, err := grpclimit.NewClient(store, &grpclimit.ClientOptions{Retries: 1}, adjusted(p, 10, grpclimit.OnlySuccesses))
		if err != nil {
			t.Fatal(err)
		}
		l := newServer(t, nil, globalCharge(policy("calls", "1/1s")))
		w := serve(t, &service{}, l, grpc.WithUnaryInterceptor(c.Unary))
		defer w.stop()
		for range 2 {
			_, _, err := w.empty(t.Context())
			mustCode(t, "retried", err, codes.OK)
		}
		if got := remaining(t, store, p); got != 80 {
			t.Errorf("got %d units left want 80: two calls have succeeded", got)
		}
	})
}
