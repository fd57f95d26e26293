package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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

func inSynctest(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func queue(name, limit string) headgate.Policy {
	p := policy(name, limit)
	p.Algorithm = headgate.LeakyBucket
	return p
}

// queueTest sends concurrent requests to a handler and records after how many ms each
// is handled.
type queueTest struct {
	h       http.Handler
	start   time.Time
	mu      sync.Mutex
	handled []int64
}

func newQueueTest(t *testing.T, opts *httplimit.Options, charges ...httplimit.Charge) *queueTest {
	l := &queueTest{start: time.Now()}
	l.h = newMiddleware(t, opts, charges...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.handled = append(l.handled, time.Since(l.start).Milliseconds())
	}))
	return l
}

func (l *queueTest) send(ctx context.Context) (done chan *httptest.ResponseRecorder) {
	done = make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- serve(l.h, request("203.0.113.9:1").WithContext(ctx)) }()
	synctest.Wait()
	return done
}

func TestQueueSpacesRequests(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		l := newQueueTest(t, nil, httplimit.Charge{Policy: queue("q", "10/s queue 4")})
		var all []chan *httptest.ResponseRecorder
		for range 6 {
			all = append(all, l.send(t.Context()))
		}
		var codes []int
		for _, done := range all {
			codes = append(codes, (<-done).Code)
		}
		if want := []int{200, 200, 200, 200, 200, 429}; !slices.Equal(codes, want) {
			t.Errorf("got %v want %v", codes, want)
		}
		if want := []int64{0, 100, 200, 300, 400}; !slices.Equal(l.handled, want) {
			t.Errorf("handled after %v ms want %v", l.handled, want)
		}
	})
}

// A single queue makes the same decisions as a limiter, to the microsecond, also if the
// time per unit is not a whole number of microseconds.
func TestQueueMatchesLimiter(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"10/s queue 4", "7/s queue 3", "3/1ms queue 5", "1/s queue 1", "900001/s queue 9", "5/s burst 1"} {
		inSynctest(t, func(t *testing.T) {
			p := queue("q", limit)
			one, two := memstore.New(nil), memstore.New(nil)
			recorded := &eventRecorder{}
			h := newMiddlewareOn(t, one, &httplimit.Options{Observer: recorded}, httplimit.Charge{Policy: p, Cost: func(r *http.Request) int64 {
				return r.ContentLength
			}})(ok)
			l, err := headgate.New(two, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			for i := range 300 {
				r := request("k:1").WithContext(ctx)
				r.RemoteAddr, r.ContentLength = "203.0.113.9:1", int64(i%3)
				go serve(h, r)
				synctest.Wait()
				want, err := l.AllowN(t.Context(), "203.0.113.9", int64(i%3))
				if err != nil {
					t.Fatal(err)
				}
				events := recorded.all()
				if got := events[len(events)-1].Decision; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s: request %d of %d units: got %+v want %+v", limit, i, i%3, got, want)
				}
				// until the microsecond at which the next request is allowed
				time.Sleep(want.RetryAfter)
				time.Sleep(time.Duration(i%5) * 37 * time.Microsecond)
			}
			cancel()
		})
	}
}

// A request that leaves the end of the queue frees its place; its handler does not run.
func TestQueueCancelFreesLastPlace(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		l := newQueueTest(t, nil, httplimit.Charge{Policy: queue("q", "10/s queue 2")})
		first, second := l.send(t.Context()), l.send(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		canceled := l.send(ctx)
		cancel()
		if got := (<-canceled).Code; got != 499 {
			t.Errorf("canceled: got %d want 499", got)
		}
		again := l.send(t.Context())
		for _, done := range []chan *httptest.ResponseRecorder{first, second, again} {
			if got := (<-done).Code; got != 200 {
				t.Errorf("got %d want 200", got)
			}
		}
		if want := []int64{0, 100, 200}; !slices.Equal(l.handled, want) {
			t.Errorf("handled after %v ms want %v: the last request takes the free place", l.handled, want)
		}
	})
}

// A request that leaves before later ones leaves a gap: the later ones keep their
// times. The distance between two requests never becomes shorter.
func TestQueueCancelDoesNotShiftLaterRequests(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		l := newQueueTest(t, nil, httplimit.Charge{Policy: queue("q", "10/s queue 9")})
		var stay []chan *httptest.ResponseRecorder
		for round := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			var leave []chan *httptest.ResponseRecorder
			for range 2 {
				leave = append(leave, l.send(ctx))
			}
			stay = append(stay, l.send(t.Context()))
			cancel()
			for _, done := range leave {
				if got := (<-done).Code; got != 499 && (round > 0 || got != 200) {
					t.Errorf("canceled: got %d want 499", got)
				}
			}
		}
		for _, done := range stay {
			<-done
		}
		if !slices.IsSorted(l.handled) || len(l.handled) != 4 {
			t.Fatalf("handled after %v ms want four requests in order", l.handled)
		}
		for i := range l.handled[1:] {
			if l.handled[i+1]-l.handled[i] < 100 {
				t.Errorf("handled after %v ms want at least 100 ms between two requests", l.handled)
			}
		}
	})
}

// A request under a queue and another policy leaves: what it has charged stays. A client
// that disconnects spends no less than others.
func TestQueueWithOtherPolicies(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		store, quota, recorded := memstore.New(nil), policy("quota", "5/1h"), &eventRecorder{}
		h := newMiddlewareOn(t, store, &httplimit.Options{Observer: recorded},
			httplimit.Charge{Policy: queue("q", "10/s queue 5")}, httplimit.Charge{Policy: quota})(ok)
		l := &queueTest{h: h}
		<-l.send(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		canceled := l.send(ctx)
		if got := remaining(t, store, quota, "203.0.113.9"); got != 3 {
			t.Errorf("while the request waits: %d units left want 3", got)
		}
		cancel()
		<-canceled
		if got := remaining(t, store, quota, "203.0.113.9"); got != 3 {
			t.Errorf("after the request left: %d units left want 3", got)
		}
		if got := remaining(t, store, queue("q", "10/s queue 5"), "203.0.113.9"); got != 4 {
			t.Errorf("after the request left: %d places left want 4: its place stays taken", got)
		}
		events := recorded.all()
		if last := events[len(events)-1]; len(events) != 4 || last.Verb != "take" {
			t.Errorf("the observer received %+v want the charges only", events)
		}
	})
}

// If the deadline is before the turn, the client still waits for the response.
func TestQueueDeadline(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		l := newQueueTest(t, nil, httplimit.Charge{Policy: queue("q", "1/s queue 5")})
		<-l.send(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		late := <-l.send(ctx)
		if waited := time.Since(l.start); waited > 0 {
			t.Errorf("the response took %v; want it immediately", waited)
		}
		if late.Code != 503 || late.Header().Get("Retry-After") != "1" || !strings.Contains(late.Body.String(), "reduced-capacity") {
			t.Errorf("got %d, %v want 503", late.Code, late.Header())
		}
		if got := late.Header().Get("RateLimit"); got != "" {
			t.Errorf("got RateLimit %q of a request that was not allowed want none", got)
		}
		if done := <-l.send(t.Context()); done.Code != 200 || !slices.Equal(l.handled, []int64{0, 1000}) {
			t.Errorf("got %d after %v ms want 200 after 1000: the place was freed", done.Code, l.handled)
		}
	})
}

// Over a real connection: the client disconnects while its request is in the queue.
func TestQueueClientDisconnects(t *testing.T) {
	t.Parallel()
	store, p := memstore.New(nil), queue("q", "1/1h queue 5")
	ended := make(chan int, 2)
	limited := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: p})(ok)
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		limited.ServeHTTP(rec, r)
		ended <- rec.Code
	}))
	s.get("/")
	if got := <-ended; got != 200 {
		t.Fatalf("the first: got %d want 200", got)
	}
	conn := dial(t, s.Listener.Addr().String())
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	for remaining(t, store, p, "127.0.0.1") != 4 { // until it is in the queue
		time.Sleep(time.Millisecond)
	}
	conn.Close()
	if got := <-ended; got != 499 {
		t.Errorf("client disconnected in the queue: got %d want 499", got)
	}
	if got := remaining(t, store, p, "127.0.0.1"); got != 5 {
		t.Errorf("%d places left want 5: its place was freed", got)
	}
}
