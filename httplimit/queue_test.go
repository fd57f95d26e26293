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

func inBubble(t *testing.T, look func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, look)
}

func queue(name, limit string) headgate.Policy {
	p := policy(name, limit)
	p.Algorithm = headgate.LeakyBucket
	return p
}

// line sends requests at once to a handler, and notes after how many ms each is handled.
type line struct {
	h       http.Handler
	began   time.Time
	mu      sync.Mutex
	handled []int64
}

func newLine(t *testing.T, opts *httplimit.Options, charges ...httplimit.Charge) *line {
	l := &line{began: time.Now()}
	l.h = by(t, opts, charges...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.handled = append(l.handled, time.Since(l.began).Milliseconds())
	}))
	return l
}

func (l *line) join(ctx context.Context) (done chan *httptest.ResponseRecorder) {
	done = make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- serve(l.h, request("203.0.113.9:1").WithContext(ctx)) }()
	synctest.Wait()
	return done
}

func TestQueueSpacesRequests(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		l := newLine(t, nil, httplimit.Charge{Policy: queue("q", "10/s queue 4")})
		var all []chan *httptest.ResponseRecorder
		for range 6 {
			all = append(all, l.join(t.Context()))
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

// A queue alone answers what a limiter answers, to the microsecond, also where a unit is no whole number of them.
func TestQueueDecidesAsLimiter(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"10/s queue 4", "7/s queue 3", "3/1ms queue 5", "1/s queue 1", "900001/s queue 9", "5/s burst 1"} {
		inBubble(t, func(t *testing.T) {
			p := queue("q", limit)
			one, two := memstore.New(nil), memstore.New(nil)
			heard := &hears{}
			h := over(t, one, &httplimit.Options{Observer: heard}, httplimit.Charge{Policy: p, Cost: func(r *http.Request) int64 {
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
				events := heard.all()
				if got := events[len(events)-1].Decision; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s: request %d of %d units: got %+v want %+v", limit, i, i%3, got, want)
				}
				time.Sleep(want.RetryAfter) // to the very microsecond at which it is admitted
				time.Sleep(time.Duration(i%5) * 37 * time.Microsecond)
			}
			cancel()
		})
	}
}

// Who goes away while nobody stands behind gives the place back; the handler does not run.
func TestQueueLetsGo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		l := newLine(t, nil, httplimit.Charge{Policy: queue("q", "10/s queue 2")})
		first, second := l.join(t.Context()), l.join(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		gone := l.join(ctx)
		cancel()
		if got := (<-gone).Code; got != 499 {
			t.Errorf("gone: got %d want 499", got)
		}
		again := l.join(t.Context())
		for _, done := range []chan *httptest.ResponseRecorder{first, second, again} {
			if got := (<-done).Code; got != 200 {
				t.Errorf("got %d want 200", got)
			}
		}
		if want := []int64{0, 100, 200}; !slices.Equal(l.handled, want) {
			t.Errorf("handled after %v ms want %v: the last takes the place that was left", l.handled, want)
		}
	})
}

// Who goes away before others leaves a gap: their instants were promised. Nothing goes out closer together, however many leave.
func TestQueueKeepsPromises(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		l := newLine(t, nil, httplimit.Charge{Policy: queue("q", "10/s queue 9")})
		var stay []chan *httptest.ResponseRecorder
		for round := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			var leave []chan *httptest.ResponseRecorder
			for range 2 {
				leave = append(leave, l.join(ctx))
			}
			stay = append(stay, l.join(t.Context()))
			cancel()
			for _, done := range leave {
				if got := (<-done).Code; got != 499 && (round > 0 || got != 200) {
					t.Errorf("gone: got %d want 499", got)
				}
			}
		}
		for _, done := range stay {
			<-done
		}
		if !slices.IsSorted(l.handled) || len(l.handled) != 4 {
			t.Fatalf("handled after %v ms want the first and three that stayed", l.handled)
		}
		for i := range l.handled[1:] {
			if l.handled[i+1]-l.handled[i] < 100 {
				t.Errorf("handled after %v ms want 100 between any two", l.handled)
			}
		}
	})
}

// Beside other policies a request that goes away has their units back, and its place stays taken.
func TestQueueBesideOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		store, quota, heard := memstore.New(nil), policy("quota", "5/1h"), &hears{}
		h := over(t, store, &httplimit.Options{Observer: heard},
			httplimit.Charge{Policy: queue("q", "10/s queue 5")}, httplimit.Charge{Policy: quota})(ok)
		l := &line{h: h}
		<-l.join(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		gone := l.join(ctx)
		if got := remaining(t, store, quota, "203.0.113.9"); got != 3 {
			t.Errorf("while it waits: %d units left want 3", got)
		}
		cancel()
		<-gone
		if got := remaining(t, store, quota, "203.0.113.9"); got != 4 {
			t.Errorf("after it went: %d units left want 4", got)
		}
		if got := remaining(t, store, queue("q", "10/s queue 5"), "203.0.113.9"); got != 4 {
			t.Errorf("after it went: %d places left want 4: the first and the one that is left", got)
		}
		events := heard.all()
		if last := events[len(events)-1]; last.Verb != "refund" || last.Policy != "quota" || last.Err != nil {
			t.Errorf("the observer heard %+v last want the refund", last)
		}
	})
}

// A deadline that ends in the queue is no client that went away: somebody waits for the answer.
func TestQueueDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		l := newLine(t, nil, httplimit.Charge{Policy: queue("q", "1/s queue 5")})
		<-l.join(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		late := <-l.join(ctx)
		if waited := time.Since(l.began); waited > 0 {
			t.Errorf("told after %v that its turn comes too late; want at once", waited)
		}
		if late.Code != 503 || late.Header().Get("Retry-After") != "1" || !strings.Contains(late.Body.String(), "reduced-capacity") {
			t.Errorf("got %d, %v want 503", late.Code, late.Header())
		}
		if got := late.Header().Get("RateLimit"); got != "" {
			t.Errorf("got RateLimit %q of a request that did not go ahead want none", got)
		}
		if done := <-l.join(t.Context()); done.Code != 200 || !slices.Equal(l.handled, []int64{0, 1000}) {
			t.Errorf("got %d after %v ms want 200 after 1000: the place was given back", done.Code, l.handled)
		}
	})
}

// Over a real connection: the client hangs up while it is held.
func TestQueueClientHangsUp(t *testing.T) {
	t.Parallel()
	store, p := memstore.New(nil), queue("q", "1/1h queue 5")
	ended := make(chan int, 2)
	limited := over(t, store, nil, httplimit.Charge{Policy: p})(ok)
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
		t.Errorf("held for an hour, the client gone: got %d want 499", got)
	}
	if got := remaining(t, store, p, "127.0.0.1"); got != 5 {
		t.Errorf("%d places left want 5: its own was given back", got)
	}
}
