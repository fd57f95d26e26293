package httplimit_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// A lower cost has the same effect as if it had been charged at the beginning, also if
// others spent units while the handler ran. A refund of the difference would leave 10.
func TestAdjustCostIsExact(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		store, bucket := memstore.New(nil), policy("bucket", "1/s burst 10")
		other := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: bucket, Cost: costs(5)})(ok)
		h := newMiddlewareOn(t, store, nil, httplimit.Charge{
			Policy: bucket, Cost: costs(10), AdjustCost: func(httplimit.Response) int64 { return 1 },
		})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			time.Sleep(8 * time.Second)
			serve(other, request("203.0.113.9:1"))
		}))
		serve(h, request("203.0.113.9:1"))
		if got := remaining(t, store, bucket, "203.0.113.9"); got != 5 {
			t.Errorf("%d units left want 5", got)
		}
	})
}

// A higher cost is owed, or with ClipExcess spent as far as units remain.
func TestAdjustCostAboveCharge(t *testing.T) {
	t.Parallel()
	for excess, want := range map[headgate.ExcessPolicy]time.Duration{
		headgate.OweExcess: 6 * time.Hour, headgate.ClipExcess: time.Hour,
	} {
		inSynctest(t, func(t *testing.T) {
			store, p := memstore.New(nil), policy("p", "1/1h burst 10")
			p.Holds.ExcessPolicy = excess
			serve(newMiddlewareOn(t, store, nil, httplimit.Charge{
				Policy: p, Cost: costs(2), AdjustCost: func(httplimit.Response) int64 { return 15 },
			})(ok), request("203.0.113.9:1"))
			l, err := headgate.New(store, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d, err := l.Peek(t.Context(), "203.0.113.9"); err != nil || d.RetryAfter != want {
				t.Errorf("excess policy %d: retry after %v, error %v; want %v", excess, d.RetryAfter, err, want)
			}
		})
	}
}

// The charge of a handler that runs for longer than HoldTTL stays, and so does the charge
// of a request that finds too many open holds.
func TestAdjustCostWithoutHold(t *testing.T) {
	t.Parallel()
	free := func(httplimit.Response) int64 { return 0 }
	inSynctest(t, func(t *testing.T) {
		store, p := memstore.New(nil), policy("p", "10/24h")
		p.Holds.MaxOpen = 1
		recorded := &eventRecorder{}
		opts := &httplimit.Options{HoldTTL: time.Second, Observer: recorded}
		var inner http.Handler = ok
		h := newMiddlewareOn(t, store, opts, httplimit.Charge{Policy: p, AdjustCost: free})(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(w, r) }))
		inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner = ok
			h.ServeHTTP(w, r)
		})
		serve(h, request("203.0.113.9:1"))
		if got := remaining(t, store, p, "203.0.113.9"); got != 9 {
			t.Errorf("one of two holds was possible: %d units left want 9", got)
		}
		inner = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		serve(h, request("203.0.113.9:1"))
		if got := remaining(t, store, p, "203.0.113.9"); got != 8 {
			t.Errorf("the hold expired: %d units left want 8", got)
		}
		events := recorded.all()
		if last := events[len(events)-1]; last.Verb != "commit" || !errors.Is(last.Err, headgate.ErrUnknownHold) {
			t.Errorf("the observer received %+v last want a failed commit", last)
		}
	})
}

func TestAdjustCostIsRefused(t *testing.T) {
	t.Parallel()
	adjusted := httplimit.Charge{Policy: policy("p", "10/1h"), AdjustCost: httplimit.OnlyFailures}
	for name, c := range map[string]struct {
		store   headgate.Store
		opts    httplimit.Options
		charges []httplimit.Charge
	}{
		"queue":                    {memstore.New(nil), httplimit.Options{}, []httplimit.Charge{adjusted, {Policy: queue("q", "10/1h")}}},
		"store without holds":      {struct{ headgate.Store }{memstore.New(nil)}, httplimit.Options{}, []httplimit.Charge{adjusted}},
		"HoldTTL of a microsecond": {memstore.New(nil), httplimit.Options{HoldTTL: time.Microsecond}, []httplimit.Charge{adjusted}},
	} {
		if _, err := httplimit.New(c.store, &c.opts, c.charges...); !errors.Is(err, httplimit.ErrInvalidOptions) {
			t.Errorf("%s: got error %v want ErrInvalidOptions", name, err)
		}
	}
}
