package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate/internal/testserver"
)

// api is the program with a Redis server of its own.
type api struct {
	t       *testing.T
	redis   *testserver.RedisServer
	handler http.Handler
	metrics http.Handler
	log     *testserver.Log
}

// newAPI starts Redis and creates the handler. A request waits for Redis for at most the
// budget: a long one makes a test independent of the machine's speed.
func newAPI(t *testing.T, budget time.Duration) *api {
	t.Helper()
	a := &api{t: t, redis: testserver.Redis(t), log: &testserver.Log{}}
	registry := prometheus.NewRegistry()
	a.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	m := newMetrics(registry, slog.New(slog.NewTextHandler(a.log, nil)))
	client := newClient(a.redis.Addr())
	store, err := newStore(client, m, budget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(); _ = client.Close() })
	if a.handler, err = newHandler(store, m); err != nil {
		t.Fatal(err)
	}
	return a
}

// get sends a request of a client behind a proxy; without a token the client has not
// signed in.
func (a *api) get(path, address, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = "10.0.0.5:4711"
	r.Header.Set("X-Forwarded-For", address)
	r.Header.Set("Authorization", token)
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	return w
}

// allowed sends requests until one is denied, and checks that a burst and what is
// refilled during the requests is allowed. The parameter refill is the time for a unit.
func (a *api) allowed(burst int, refill time.Duration, request func(i int) *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	a.t.Helper()
	began := time.Now()
	for i := 0; ; i++ {
		w := request(i)
		most := burst + 1 + int(time.Since(began)/refill)
		switch {
		case w.Code != 200 && w.Code != 429, i > most:
			a.t.Fatalf("request %d: got %d %s, want 200 or 429, and at most %d allowed", i+1, w.Code, w.Body, most)
		case w.Code == 429 && i < burst:
			a.t.Fatalf("request %d: denied, want at least %d allowed", i+1, burst)
		case w.Code == 429:
			return w
		}
	}
}

func (a *api) mustExport(want string) {
	a.t.Helper()
	if got := a.exported(); !strings.Contains(got, want) {
		a.t.Errorf("the metrics do not contain %s:\n%s", want, got)
	}
}

func (a *api) exported() string {
	w := httptest.NewRecorder()
	a.metrics.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// A user has one budget at all addresses, and an address has one budget. A denied request
// spends nothing of the other one.
func TestUserAndAddressLimits(t *testing.T) {
	t.Parallel()
	a := newAPI(t, time.Minute)
	const token = "Bearer token-of-ann"
	denied := a.allowed(20, 3600*time.Millisecond, func(i int) *httptest.ResponseRecorder {
		return a.get("/orders", fmt.Sprintf("203.0.113.%d", i), token)
	})
	if body := denied.Body.String(); !strings.Contains(body, `"api-user"`) || strings.Contains(body, "api-address") {
		t.Errorf("the user is denied by %s, want api-user", body)
	}
	denied = a.allowed(60, 1200*time.Millisecond, func(int) *httptest.ResponseRecorder { return a.get("/orders", "198.51.100.7", "") })
	if body := denied.Body.String(); !strings.Contains(body, `"api-address"`) {
		t.Errorf("the address is denied by %s, want api-address", body)
	}
	// an invented token selects no other budget
	a.allowed(0, 1200*time.Millisecond, func(int) *httptest.ResponseRecorder { return a.get("/orders", "198.51.100.7", "Bearer invented") })
	if w := a.get("/healthz", "198.51.100.7", ""); w.Code != 200 || w.Header().Get("RateLimit") != "" {
		t.Errorf("the health check: got %d, RateLimit %q, want 200 without a limit", w.Code, w.Header().Get("RateLimit"))
	}
	a.mustExport(`ratelimit_decisions_total{degraded="false",outcome="denied",policy="api-user"} 1`)
	a.mustExport(`ratelimit_store_unavailable{node=""} 0`)
}

// While Redis does not reply, or has stopped, a replica decides on a third of the limit,
// no request fails, and the log and the metrics report the outage and its end.
func TestRedisUnavailable(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct{ begin, end func(*testserver.RedisServer) }{
		"no reply": {(*testserver.RedisServer).Stop, (*testserver.RedisServer).Continue},
		"killed":   {(*testserver.RedisServer).Kill, (*testserver.RedisServer).Start},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, 50*time.Millisecond)
			fault.begin(a.redis)
			request := func(int) *httptest.ResponseRecorder { return a.get("/orders", "203.0.113.9", "Bearer token-of-ann") }
			a.allowed(20/3, 3*3600*time.Millisecond, request)
			a.until("store unavailable", `ratelimit_store_unavailable{node=""} 1`, request)
			a.mustExport(`degraded="true",outcome="allowed",policy="api-user"} `)
			fault.end(a.redis)
			a.until("store recovered", `ratelimit_store_unavailable{node=""} 0`, request)
		})
	}
}

// until sends requests until the log contains a message and the metrics a line.
func (a *api) until(message, metric string, request func(int) *httptest.ResponseRecorder) {
	a.t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if w := request(0); w.Code != 200 && w.Code != 429 {
			a.t.Fatalf("got %d %s, want 200 or 429", w.Code, w.Body)
		}
		logged, exported := strings.Contains(a.log.String(), `msg="`+message+`"`), strings.Contains(a.exported(), metric)
		switch {
		case logged && exported:
			return
		case time.Now().After(late):
			a.t.Fatalf("after a minute: logged %t, exported %t\n%s", logged, exported, a.log)
		}
	}
}

// A request in flight is answered after the shutdown began, and no new one is accepted.
func TestShutdownAnswersRequestsInFlight(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, release := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	ctx, cancel := context.WithCancel(t.Context())
	served, answered := make(chan error, 1), make(chan string, 1)
	go func() { served <- serve(ctx, listener, handler) }()
	go func() { answered <- body("http://" + listener.Addr().String()) }()
	<-entered
	cancel()
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			break
		}
		_ = conn.Close()
		if time.Now().After(late) {
			t.Fatal("the server still accepts connections after a minute")
		}
	}
	close(release)
	if got := <-answered; got != "done" {
		t.Errorf("the request in flight: got %q, want done", got)
	}
	if err := <-served; err != nil {
		t.Errorf("serve: got %v, want no error", err)
	}
}

// body returns the body of the response, or the error.
func body(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	if err != nil {
		return err.Error()
	}
	return text.String()
}
