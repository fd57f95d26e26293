package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// remainingAfter returns the units that remain of 100 after one request, which is
// charged units first and adjusted by adjust.
func remainingAfter(t *testing.T, charged int64, adjust func(httplimit.Response) int64, h http.HandlerFunc) (left int64) {
	t.Helper()
	store, p := memstore.New(nil), policy("p", "100/1h")
	s := listen(t, newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: p, Key: httplimit.Global(), Cost: costs(charged), AdjustCost: adjust})(h))

	resp, err := s.Client().Get(s.URL)
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	s.Close() // waits for the handler
	return remaining(t, store, p, "")
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func body(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, n)) }
}

func TestAdjustCost(t *testing.T) {
	t.Parallel()
	real := func(n int64) func(httplimit.Response) int64 { return func(httplimit.Response) int64 { return n } }
	for _, c := range []struct {
		name    string
		charged int64
		adjust  func(httplimit.Response) int64
		h       http.HandlerFunc
		left    int64
	}{
		{"no AdjustCost", 10, nil, status(200), 90},
		{"only failures: a success", 10, httplimit.OnlyFailures, status(204), 100},
		{"only failures: a redirect", 10, httplimit.OnlyFailures, status(303), 100},
		{"only failures: no status", 10, httplimit.OnlyFailures, func(http.ResponseWriter, *http.Request) {}, 100},
		{"only failures: a failure", 10, httplimit.OnlyFailures, status(401), 90},
		{"only failures: panic", 10, httplimit.OnlyFailures, func(http.ResponseWriter, *http.Request) { panic("oh") }, 90},
		{
			"only failures: panic after a success", 10, httplimit.OnlyFailures,
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("oh") }, 90,
		},
		{"only successes: a success", 10, httplimit.OnlySuccesses, status(200), 90},
		{"only successes: a failure", 10, httplimit.OnlySuccesses, status(500), 100},
		{"only successes: panic", 10, httplimit.OnlySuccesses, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 100},
		{"only 401 and 403: 401", 10, httplimit.OnlyStatus(401, 403), status(401), 90},
		{"only 401 and 403: 404", 10, httplimit.OnlyStatus(401, 403), status(404), 100},
		{"only 500: panic", 10, httplimit.OnlyStatus(500), func(http.ResponseWriter, *http.Request) { panic("oh") }, 90},
		{"per bytes", 10, httplimit.PerBytes(1000), body(2001), 97},
		{"per bytes: empty body", 10, httplimit.PerBytes(1000), status(204), 99},
		{"per bytes: more than was charged", 10, httplimit.PerBytes(1000), body(42000), 58},
		{"per bytes of size 0", 1, httplimit.PerBytes(0), body(7), 93},
		{"more than remains takes all", 10, real(1000), status(200), 0},
		{"unchanged", 10, real(10), status(200), 90},
		{"negative cost counts as 0", 10, real(-5), status(200), 100},
		{"cost 0, charged afterwards", 0, real(30), status(200), 70},
		{"largest cost", 100, real(1 << 62), status(200), 0},
	} {
		if got := remainingAfter(t, c.charged, c.adjust, c.h); got != c.left {
			t.Errorf("%s: %d units left of 100 want %d", c.name, got, c.left)
		}
	}
}

// AdjustCost receives the outcome for every way in which a handler can respond, over real
// connections.
func TestResponseFields(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, 12345), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		h    http.HandlerFunc
		want httplimit.Response
	}{
		{"no response", func(http.ResponseWriter, *http.Request) {}, httplimit.Response{Status: 200}},
		{"body without status", body(7), httplimit.Response{Status: 200, Bytes: 7}},
		{"a string", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }, httplimit.Response{Status: 200, Bytes: 5}},
		{"first status counts", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			io.WriteString(w, "no")
		}, httplimit.Response{Status: 404, Bytes: 2}},
		{"1xx are not final", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(201)
		}, httplimit.Response{Status: 201}},
		{"1xx only", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusEarlyHints) }, httplimit.Response{Status: 200}},
		{"flushed", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			io.WriteString(w, "b")
		}, httplimit.Response{Status: 200, Bytes: 2}},
		{"flushed without a body", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); panic("oh") }, httplimit.Response{Status: 200, Panicked: true}},
		{"a file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }, httplimit.Response{Status: 200, Bytes: 12345}},
		{"copied", func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, strings.NewReader("hello"))
		}, httplimit.Response{Status: 200, Bytes: 5}},
		{"panic", func(http.ResponseWriter, *http.Request) { panic("oh") }, httplimit.Response{Status: 500, Panicked: true}},
		{"panic after a write", func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		}, httplimit.Response{Status: 200, Bytes: 4, Panicked: true}},
		{"runtime.Goexit", func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, httplimit.Response{Status: 500, Panicked: true}},
		{"hijacked", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n")
			conn.Close()
		}, httplimit.Response{Status: 101}},
		{"invalid status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) }, httplimit.Response{Status: 500, Panicked: true}},
		{"written to after hijack", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
			w.WriteHeader(http.StatusNotFound)
			if _, err := io.WriteString(w, "hello"); err == nil {
				t.Error("no error")
			}
		}, httplimit.Response{Status: 101}},
		{"hijacked with a status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		}, httplimit.Response{Status: 101}},
	} {
		received := make(chan httplimit.Response, 1)
		h := newMiddleware(t, nil, httplimit.Charge{Policy: policy("p", "100/1h"), Cost: costs(3), AdjustCost: func(o httplimit.Response) int64 {
			received <- o
			return o.Charged
		}})(c.h)
		server := listen(t, h)
		if resp, err := server.Client().Get(server.URL); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		got := <-received
		server.Close()
		if got.Request == nil || got.Request.Method != "GET" {
			t.Errorf("%s: got request %v want the GET request", c.name, got.Request)
		}
		got.Request, c.want.Charged = nil, 3
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v want %+v", c.name, got, c.want)
		}
	}
}

// A panic continues unchanged after the cost was adjusted.
func TestPanicPropagates(t *testing.T) {
	t.Parallel()
	store, p := memstore.New(nil), policy("p", "10/1h")
	for _, value := range []any{http.ErrAbortHandler, errors.New("oh"), "oh"} {
		h := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: p, AdjustCost: httplimit.OnlySuccesses})(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(value) }))
		func() {
			defer func() {
				if got := recover(); got != value {
					t.Errorf("recovered %v want %v", got, value)
				}
			}()
			serve(h, request("203.0.113.9:1"))
		}()
		if got := remaining(t, store, p, "203.0.113.9"); got != 10 {
			t.Errorf("%v: %d units left want all 10", value, got)
		}
	}
}

// The charge precedes the handler, so parallel requests cannot exceed the limit.
func TestChargePrecedesHandler(t *testing.T) {
	t.Parallel()
	store, p := memstore.New(nil), policy("login", "5/1h")
	var running sync.WaitGroup
	running.Add(5)
	release := make(chan struct{})
	h := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: p, AdjustCost: httplimit.OnlyFailures})(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			running.Done()
			<-release
		}))
	codes := make(chan int, 5)
	for range 5 {
		go func() { codes <- serve(h, request("203.0.113.9:1")).Code }()
	}
	running.Wait()
	if got := serve(h, request("203.0.113.9:1")).Code; got != 429 {
		t.Errorf("the sixth guess while five are running: got %d want 429", got)
	}
	close(release)
	for range 5 {
		if got := <-codes; got != 200 {
			t.Errorf("got %d want 200", got)
		}
	}
	if got := remaining(t, store, p, "203.0.113.9"); got != 5 {
		t.Errorf("%d units left want all 5: no request failed", got)
	}
}

// The cost is adjusted also for a disconnected client, for each limit of each charge.
func TestAdjustCostAfterDisconnect(t *testing.T) {
	t.Parallel()
	store, recorded := memstore.New(nil), &eventRecorder{}
	two, kept := policy("two", "10/1h", "20/2h"), policy("kept", "10/1h")
	ctx, cancel := context.WithCancel(t.Context())
	h := newMiddlewareOn(t, store, &httplimit.Options{Observer: recorded},
		httplimit.Charge{Policy: two, Cost: costs(4), AdjustCost: func(httplimit.Response) int64 { return 1 }},
		httplimit.Charge{Policy: kept, Cost: costs(4)},
	)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel() }))
	serve(h, request("203.0.113.9:1").WithContext(ctx))
	for i, p := range []headgate.Policy{two, kept} {
		if got, want := remaining(t, store, p, "203.0.113.9"), []int64{9, 6}[i]; got != want {
			t.Errorf("%s: %d units left want %d", p.Name, got, want)
		}
	}
	events := recorded.all()
	if last := events[len(events)-1]; last.Verb != "commit" || last.Cost != 1 || last.Policy != "two" || last.Decision.Remaining != 9 {
		t.Errorf("the observer received %+v last want a commit of 1", last)
	}
}

// If the store fails before the adjustment, the charge stays and the response does not
// change.
func TestAdjustCostStoreError(t *testing.T) {
	t.Parallel()
	for name, cost := range map[string]int64{"less": 0, "more": 9} {
		store, recorded := memstore.New(nil), &eventRecorder{}
		h := newMiddlewareOn(t, store, &httplimit.Options{Observer: recorded}, httplimit.Charge{
			Policy: policy("p", "10/1h"), AdjustCost: func(httplimit.Response) int64 { return cost },
		})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { store.Close() }))
		if got := serve(h, request("203.0.113.9:1")).Code; got != 200 {
			t.Errorf("%s: got %d want the handler's 200", name, got)
		}
		events := recorded.all()
		if last := events[len(events)-1]; last.Verb != "commit" || !errors.Is(last.Err, headgate.ErrClosed) {
			t.Errorf("%s: the observer received %+v last want the failed operation", name, last)
		}
	}
}

// A response writer that cannot flush or hijack returns an error and does not panic.
func TestMinimalResponseWriter(t *testing.T) {
	t.Parallel()
	h := newMiddleware(t, nil, httplimit.Charge{Policy: policy("p", "10/1h"), AdjustCost: httplimit.OnlyFailures})(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("Flush: got %v want ErrNotSupported", err)
			}
			if _, _, err := w.(http.Hijacker).Hijack(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("Hijack: got %v want ErrNotSupported", err)
			}
			if n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("hello")); n != 5 || err != nil {
				t.Errorf("ReadFrom: got %d, %v want 5", n, err)
			}
		}))
	rec := httptest.NewRecorder()
	h.ServeHTTP(struct{ http.ResponseWriter }{rec}, request("203.0.113.9:1"))
	if got := rec.Body.String(); got != "hello" {
		t.Errorf("got %q want hello", got)
	}
}

// A handler can hijack the connection, as for WebSocket.
func TestHijackedConnection(t *testing.T) {
	t.Parallel()
	s := listen(t, newMiddleware(t, nil, httplimit.Charge{Policy: policy("p", "10/1h"), AdjustCost: httplimit.OnlyFailures})(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			rw.Flush()
			word, _ := rw.ReadString('\n')
			fmt.Fprint(rw, word)
			rw.Flush()
		})))
	conn := dial(t, s.Listener.Addr().String())
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("got %v, %v want 101", resp, err)
	}
	fmt.Fprint(conn, "hello\n")
	if got, err := in.ReadString('\n'); got != "hello\n" {
		t.Errorf("got %q, %v want hello", got, err)
	}
}

// T30: units that the limit has regained are not refunded again; the refund would
// return units of other requests.
func TestRegainedUnitsAreNotRefunded(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []headgate.Algorithm{headgate.FixedWindow, headgate.TokenBucket, headgate.SlidingLog, headgate.TokenBucketInterval} {
		inSynctest(t, func(t *testing.T) {
			store, p := memstore.New(nil), policy("p", "5/1m")
			p.Algorithm = algorithm
			h := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: p, AdjustCost: httplimit.OnlyFailures})(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					wait, _ := time.ParseDuration(r.URL.RawQuery)
					if time.Sleep(wait); wait == 0 {
						w.WriteHeader(http.StatusUnauthorized)
					}
				}))
			guesses := func() (admitted int) {
				for range 6 {
					if serve(h, request("203.0.113.9:1")).Code == http.StatusUnauthorized {
						admitted++
					}
				}
				return admitted
			}
			var slow sync.WaitGroup
			for range 5 {
				r := request("203.0.113.9:1")
				r.URL.RawQuery = "61s"
				slow.Go(func() { serve(h, r) })
			}
			synctest.Wait()
			time.Sleep(time.Minute) // the limit is full again
			before := guesses()
			slow.Wait()
			if before != 5 || guesses() > 1 { // some algorithms have regained one unit
				t.Errorf("%s: %d failures before the refunds and more after; want 5", algorithm, before)
			}
		})
	}
}

// The observer receives the final cost, if it differs from the charge.
func TestObserverReceivesFinalCost(t *testing.T) {
	t.Parallel()
	recorded := &eventRecorder{}
	for _, c := range []struct {
		cost int64
		want []int64
	}{{7, []int64{2, 7}}, {100, []int64{2, 100}}, {2, []int64{2}}} {
		recorded.events = nil
		serve(newMiddleware(t, &httplimit.Options{Observer: recorded}, httplimit.Charge{
			Policy: policy("p", "10/1h"), Cost: costs(2), AdjustCost: func(httplimit.Response) int64 { return c.cost },
		})(ok), request("203.0.113.9:1"))
		var took []int64
		for _, e := range recorded.all() {
			if took = append(took, e.Cost); !e.Decision.Allowed {
				t.Errorf("final cost %d: got a denial: %+v", c.cost, e)
			}
		}
		if !slices.Equal(took, c.want) {
			t.Errorf("final cost %d: got events of %d want %d", c.cost, took, c.want)
		}
	}
}
