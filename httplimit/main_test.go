package httplimit_test

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/memstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func policy(name string, limits ...string) headgate.Policy {
	p := headgate.MustPolicy(limits...)
	p.Name = name
	return p
}

// newMiddleware returns middleware with a new memory store.
func newMiddleware(t testing.TB, opts *httplimit.Options, charges ...httplimit.Charge) func(http.Handler) http.Handler {
	t.Helper()
	return newMiddlewareOn(t, memstore.New(nil), opts, charges...)
}

func newMiddlewareOn(t testing.TB, store headgate.Store, opts *httplimit.Options, charges ...httplimit.Charge) func(http.Handler) http.Handler {
	t.Helper()
	limit, err := httplimit.New(store, opts, charges...)
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })

// site is an HTTP server with its client.
type site struct {
	t *testing.T
	*httptest.Server
}

func listen(t *testing.T, h http.Handler) *site {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handlers panic in some tests
	s.Start()
	t.Cleanup(s.Close)
	return &site{t, s}
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   string
}

// get sends a GET request; fields are name, value, name, value….
func (s *site) get(path string, fields ...string) answer { return s.do("GET", path, fields...) }

func (s *site) do(method, path string, fields ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header[fields[i]] = append(req.Header[fields[i]], fields[i+1])
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// must sends requests and checks their statuses in order.
func (s *site) must(statuses ...int) {
	s.t.Helper()
	for i, want := range statuses {
		if got := s.get("/"); got.status != want {
			s.t.Fatalf("request %d: got %d %s want %d", i+1, got.status, got.body, want)
		}
	}
}

// eventRecorder is an observer that records events.
type eventRecorder struct {
	mu     sync.Mutex
	events []headgate.Event
}

func (h *eventRecorder) Observe(e headgate.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *eventRecorder) all() []headgate.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]headgate.Event(nil), h.events...)
}

// request returns a request of a client address, for handlers that are called directly.
func request(addr string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = addr
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// object parses a JSON body.
func object(t *testing.T, body string) map[string]any {
	t.Helper()
	var found map[string]any
	if err := json.Unmarshal([]byte(body), &found); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	return found
}

// remaining returns the remaining units of key.
func remaining(t *testing.T, store headgate.Store, p headgate.Policy, key string) int64 {
	t.Helper()
	l, err := headgate.New(store, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.PeekN(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// raw sends a request as literal text and reads the response.
func (s *site) raw(text string) answer {
	s.t.Helper()
	conn := dial(s.t, s.Listener.Addr().String())
	io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}
}
