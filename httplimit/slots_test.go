package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// slots is middleware with a limit of concurrent requests and a rate, and the store.
func slots(t testing.TB, opts *httplimit.Options, limits ...string) (*memstore.Store, func(http.Handler) http.Handler) {
	t.Helper()
	store := memstore.New(nil)
	return store, newMiddlewareOn(t, store, opts, httplimit.Charge{Policy: policy("p", limits...), Key: httplimit.Global()})
}

// free returns the number of slots that are available.
func free(t testing.TB, store headgate.Store, limit string) int64 {
	t.Helper()
	l, err := headgate.New(store, policy("p", limit), nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.PeekN(context.Background(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// A slot is held while the handler runs. A request beyond the limit gets 429 and the wait
// until the first deadline, and has not spent its rate.
func TestSlotIsHeldWhileHandlerRuns(t *testing.T) {
	t.Parallel()
	running, done := make(chan struct{}), make(chan struct{})
	store, limit := slots(t, nil, "2 concurrent", "4/1h")
	s := listen(t, limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			running <- struct{}{}
			<-done
		}
	})))
	for range 2 {
		go s.Client().Get(s.URL + "/long")
		<-running
	}
	denied := s.get("/")
	if denied.status != http.StatusTooManyRequests || denied.header.Get("Retry-After") != "30" {
		t.Errorf("a third request: got %d, Retry-After %q want 429 and 30", denied.status, denied.header.Get("Retry-After"))
	}
	if got := denied.header.Get("RateLimit-Reason"); got != "concurrency" || !strings.Contains(denied.body, "requests are in progress") {
		t.Errorf("a third request: got reason %q, %s want concurrency", got, denied.body)
	}
	close(done)
	s.Close()
	s = listen(t, limit(ok))
	s.must(200, 200, 429) // the rate: two long requests and these two
	if got := s.get("/").header.Get("RateLimit-Reason"); got != "rate" {
		t.Errorf("denied by the rate: got reason %q want rate", got)
	}
	if got := free(t, store, "2 concurrent"); got != 2 {
		t.Errorf("all requests have ended: got %d slots want 2", got)
	}
}

// A disconnect, a panic, an exit of the goroutine and a timeout release the slot.
func TestHandlersThatEndOtherwiseReleaseTheirSlot(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"a handler that panics": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a disconnect": func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		},
		"a timeout": func(w http.ResponseWriter, r *http.Request) {
			http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Millisecond, "").ServeHTTP(w, r)
		},
		"a hijacked connection": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		},
	} {
		for _, adjust := range []func(httplimit.Response) int64{nil, httplimit.OnlyFailures} {
			store, started, ended := memstore.New(nil), make(chan struct{}), make(chan struct{})
			limit := newMiddlewareOn(t, store, nil,
				httplimit.Charge{Policy: policy("p", "1 concurrent"), Key: httplimit.Global()},
				httplimit.Charge{Policy: policy("rate", "9/1h"), Key: httplimit.Global(), AdjustCost: adjust})
			limited := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(started)
				h(w, r)
			}))
			s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				limited.ServeHTTP(w, r)
			}))
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				<-started
				if name == "a disconnect" {
					cancel()
				}
			}()
			if resp, err := s.Client().Do(req); err == nil {
				resp.Body.Close()
			}
			cancel()
			s.Close()
			<-ended // the server does not wait for the handler of a hijacked connection
			if got := free(t, store, "1 concurrent"); got != 1 {
				t.Errorf("%s, adjusted %t: got %d slots want 1: the slot has leaked", name, adjust != nil, got)
			}
		}
	}
}

// While a handler runs, its hold is extended, so its slot is taken after any time.
func TestSlotOfLongHandlerIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, limit := slots(t, &httplimit.Options{HoldTTL: 30 * time.Second}, "1 concurrent")
		h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) }))
		go h.ServeHTTP(httptest.NewRecorder(), request("192.0.2.1:1"))
		time.Sleep(59 * time.Minute)
		if got := free(t, store, "1 concurrent"); got != 0 {
			t.Errorf("after 59 minutes: got %d slots want 0", got)
		}
		time.Sleep(2 * time.Minute)
		if got := free(t, store, "1 concurrent"); got != 1 {
			t.Errorf("after the handler: got %d slots want 1", got)
		}
	})
}

// Limits that a function returns may be slots, too.
func TestSlotsOfLimitsFunction(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	two := []headgate.Limit{headgate.MustParseLimit("2 concurrent")}
	limit := newMiddlewareOn(t, store, nil, httplimit.Charge{
		Policy: policy("p", "100/1m"), Key: httplimit.Global(), Limits: func(*http.Request) []headgate.Limit { return two },
	})
	inside := int64(-1)
	s := listen(t, limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside = free(t, store, "2 concurrent") })))
	s.must(200)
	if after := free(t, store, "2 concurrent"); inside != 1 || after != 2 {
		t.Errorf("got %d slots in the handler and %d afterwards, want 1 and 2", inside, after)
	}
}

// plainStore is a store without holds.
type plainStore struct{ headgate.Store }

func TestSlotsRequireHolds(t *testing.T) {
	t.Parallel()
	charge := httplimit.Charge{Policy: policy("p", "1 concurrent")}
	if _, err := httplimit.New(plainStore{memstore.New(nil)}, nil, charge); !errors.Is(err, httplimit.ErrInvalidOptions) {
		t.Errorf("a store without holds: got error %v want ErrInvalidOptions", err)
	}
	queue := httplimit.Charge{Policy: headgate.Policy{Name: "q", Algorithm: headgate.LeakyBucket, Limits: []headgate.Limit{headgate.MustParseLimit("1/s queue 3")}}}
	if _, err := httplimit.New(memstore.New(nil), nil, charge, queue); !errors.Is(err, httplimit.ErrInvalidOptions) {
		t.Errorf("with a queue: got error %v want ErrInvalidOptions", err)
	}
}
