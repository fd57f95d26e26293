package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func costs(n int64) func(*http.Request) int64 { return func(*http.Request) int64 { return n } }

// closedStoreHandler returns a handler whose store is closed.
func closedStoreHandler(t *testing.T, charges ...httplimit.Charge) http.Handler {
	t.Helper()
	store := memstore.New(nil)
	h := newMiddlewareOn(t, store, nil, charges...)(ok)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return h
}

// The statuses, header fields and bodies of responses: the table in
// docs/reference/http-middleware.md.
func TestResponses(t *testing.T) {
	t.Parallel()
	const quota, capacity = "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	one := httplimit.Charge{Policy: policy("api", "1/1h")}
	asJSON := &httplimit.Options{DeniedHandler: httplimit.JSON}
	for _, c := range []struct {
		name    string
		h       http.Handler
		before  int // requests that are sent first
		status  int
		kind    string
		retry   string // Retry-After; empty if the field is not set
		reason  string
		body    map[string]any
		handler bool
	}{
		{name: "admitted", h: newMiddleware(t, nil, one)(ok), status: 200, handler: true},
		{
			name: "denied", h: newMiddleware(t, nil, one)(ok), before: 1, status: 429, kind: "application/problem+json", retry: "3600", reason: "rate",
			body: map[string]any{
				"type": quota, "title": "Too Many Requests", "status": 429.0, "violated-policies": []any{"api"},
				"detail": "The rate limit was exceeded. Try again in 3600 s.",
			},
		},
		{
			name: "denied, JSON", h: newMiddleware(t, asJSON, one)(ok), before: 1, status: 429, kind: "application/json", retry: "3600", reason: "rate",
			body: map[string]any{"error": "The rate limit was exceeded. Try again in 3600 s.", "retry_after": 3600.0, "policies": []any{"api"}},
		},
		{
			name: "cost above the limit", h: newMiddleware(t, nil, httplimit.Charge{Policy: policy("api", "1/1h"), Cost: costs(2)})(ok), status: 429,
			kind: "application/problem+json", reason: "cost",
			body: map[string]any{
				"type": quota, "title": "Too Many Requests", "status": 429.0, "violated-policies": []any{"api"},
				"detail": "The cost of this request exceeds the limit. Retrying does not help.",
			},
		},
		{
			name: "cost above the limit, JSON", h: newMiddleware(t, asJSON, httplimit.Charge{Policy: policy("api", "1/1h"), Cost: costs(1 << 62)})(ok), status: 429,
			kind: "application/json", reason: "cost",
			body: map[string]any{"error": "The cost of this request exceeds the limit. Retrying does not help.", "policies": []any{"api"}},
		},
		{name: "cost 0 peeks", h: newMiddleware(t, nil, httplimit.Charge{Policy: policy("api", "1/1h"), Cost: costs(0)})(ok), before: 3, status: 200, handler: true},
		{
			name: "policies without a name", h: newMiddleware(t, nil, httplimit.Charge{Policy: policy("", "1/1h")}, httplimit.Charge{Policy: policy("", "1/2h")})(ok),
			before: 1, status: 429, kind: "application/problem+json", retry: "7200", reason: "rate",
			body: map[string]any{
				"type": quota, "title": "Too Many Requests", "status": 429.0, "violated-policies": []any{"default", "default-2"},
				"detail": "The rate limit was exceeded. Try again in 7200 s.",
			},
		},
		{
			name: "several limits", h: newMiddleware(t, nil, httplimit.Charge{Policy: policy("api", "5/1s", "1/1h")})(ok),
			before: 1, status: 429, kind: "application/problem+json", retry: "3600", reason: "rate",
			body: map[string]any{
				"type": quota, "title": "Too Many Requests", "status": 429.0, "violated-policies": []any{"api:1/h"},
				"detail": "The rate limit was exceeded. Try again in 3600 s.",
			},
		},
		{
			name: "store error", h: closedStoreHandler(t, one), status: 503, kind: "application/problem+json", retry: "1", reason: "capacity",
			body: map[string]any{
				"type": capacity, "title": "Service Unavailable", "status": 503.0,
				"detail": "The rate limit for this request could not be checked. Try again in 1 s.",
			},
		},
		{
			name: "a negative cost", h: newMiddleware(t, nil, httplimit.Charge{Policy: policy("api", "1/1h"), Cost: costs(-1)})(ok), status: 500,
			kind: "application/problem+json",
			body: map[string]any{
				"type": "about:blank", "title": "Internal Server Error", "status": 500.0, "detail": "The server could not determine the cost of this request.",
			},
		},
	} {
		s := listen(t, c.h)
		for range c.before {
			s.get("/")
		}
		for _, method := range []string{"GET", "HEAD", "POST"} {
			if c.name == "admitted" && method != "GET" {
				continue
			}
			got := s.do(method, "/")
			if got.status != c.status || !c.handler && got.header.Get("Content-Type") != c.kind || got.header.Get("RateLimit-Reason") != c.reason {
				t.Errorf("%s, %s: got %d, %v want %d, %s, %q", c.name, method, got.status, got.header, c.status, c.kind, c.reason)
			}
			if got := got.header.Get("Retry-After"); got != c.retry && got != minusOneSecond(c.retry) {
				t.Errorf("%s, %s: Retry-After: got %q want %q", c.name, method, got, c.retry)
			}
			if c.handler {
				continue
			}
			if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s, %s: got %v want no-store and nosniff", c.name, method, got.header)
			}
			if method == "HEAD" {
				if length, _ := strconv.Atoi(got.header.Get("Content-Length")); got.body != "" || length == 0 {
					t.Errorf("%s, HEAD: got %q, length %d want no body, and the length of GET's", c.name, got.body, length)
				}
				continue
			}
			if body := object(t, got.body); !reflect.DeepEqual(body, c.body) {
				t.Errorf("%s, %s: got %v want %v", c.name, method, body, c.body)
			}
		}
	}
}

// minusOneSecond returns the wait one second later.
func minusOneSecond(seconds string) string {
	n, err := strconv.Atoi(seconds)
	if err != nil || n < 2 {
		return seconds
	}
	return strconv.Itoa(n - 1)
}

// Policy names come from configuration and may contain any character.
func TestProblemEscapesPolicyNames(t *testing.T) {
	t.Parallel()
	s := listen(t, newMiddleware(t, nil, httplimit.Charge{Policy: policy("\"é\x00\r\nX: y", "1/1h")})(ok))
	s.get("/")
	got := s.get("/")
	names, _ := object(t, got.body)["violated-policies"].([]any)
	if len(names) != 1 || got.header.Get("X") != "" {
		t.Errorf("got %q, %v want one name and no field X", got.body, got.header)
	}
}

func TestCustomHandlers(t *testing.T) {
	t.Parallel()
	var denial *httplimit.Denial
	var failed error
	h := newMiddleware(t, &httplimit.Options{
		DeniedHandler: func(w http.ResponseWriter, _ *http.Request, d *httplimit.Denial) { denial = d; w.WriteHeader(403) },
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { failed = err; w.WriteHeader(502) },
	}, httplimit.Charge{Policy: policy("api", "5/s", "1/1h"), Cost: func(r *http.Request) int64 { return int64(len(r.Method) - 3) }})(ok)
	r := request("203.0.113.9:1")
	r.Method = "POST"
	serve(h, r)
	if got := serve(h, r); got.Code != 403 || got.Header().Get("Retry-After") == "" || denial == nil {
		t.Fatalf("got %d, %v, %+v want 403 with Retry-After", got.Code, got.Header(), denial)
	}
	if fmt.Sprint(denial.Policies, denial.DeniedBy) != "[api:1/h] [api:1/h]" || denial.RetryAfter <= 0 {
		t.Errorf("got %+v want one limit and its wait", denial)
	}
	r.Method = "A"
	if got := serve(h, r); got.Code != 502 || !errors.Is(failed, headgate.ErrInvalidCost) {
		t.Errorf("a negative cost: got %d, %v want 502 and the cause", got.Code, failed)
	}
}

// No response is written to a client that has disconnected.
func TestClientDisconnected(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	h := newMiddlewareOn(t, store, &httplimit.Options{ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
		t.Error("ErrorHandler was called for a disconnected client")
	}}, httplimit.Charge{Policy: policy("api", "1/1h")})(ok)
	store.Close() // so that the store returns an error for the canceled context
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := serve(h, request("203.0.113.9:1").WithContext(ctx)); got.Code != 499 || got.Body.Len() > 0 {
		t.Errorf("got %d %q want 499 and no body", got.Code, got.Body)
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	s := listen(t, newMiddleware(t, &httplimit.Options{Skip: func(r *http.Request) bool { return r.URL.Path == "/health" }},
		httplimit.Charge{Policy: policy("api", "1/1h")})(ok))
	for range 5 {
		if got := s.get("/health"); got.status != 200 || got.header.Get("RateLimit") != "" {
			t.Errorf("a health check: got %d, %v want 200 without fields", got.status, got.header)
		}
	}
	s.must(200, 429)
}

// Header fields that an outer middleware has set are not lost.
func TestExistingHeaderFieldsStay(t *testing.T) {
	t.Parallel()
	h := newMiddleware(t, nil, httplimit.Charge{Policy: policy("api", "1/1h")})(ok)
	w := httptest.NewRecorder()
	w.Header().Set("RateLimit", `"upstream";r=1;t=1`)
	w.Header().Set("X-Frame-Options", "DENY")
	h.ServeHTTP(w, request("203.0.113.9:1"))
	if got := w.Header().Values("RateLimit"); len(got) != 2 || w.Header().Get("X-Frame-Options") != "DENY" {
		t.Errorf("got %v want the fields of both limits and X-Frame-Options", w.Header())
	}
}

func TestObserver(t *testing.T) {
	t.Parallel()
	recorded := &eventRecorder{}
	h := newMiddleware(t, &httplimit.Options{Observer: recorded},
		httplimit.Charge{Policy: policy("a", "5/1h"), Cost: costs(2)},
		httplimit.Charge{Policy: policy("b", "1/1h", "9/1h"), Key: httplimit.Global()})(ok)
	serve(h, request("203.0.113.9:1"))
	serve(h, request("203.0.113.9:1"))
	var got []string
	for _, e := range recorded.all() {
		got = append(got, fmt.Sprintf("%s %s %d %v %d %v", e.Policy, e.Verb, e.Cost, e.Decision.Allowed, e.Decision.Remaining, e.Err))
	}
	want := []string{"a take 2 true 3 <nil>", "b take 1 true 0 <nil>", "a take 2 true 3 <nil>", "b take 1 false 0 <nil>"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q want %q", got, want)
	}
	s := memstore.New(nil)
	recorded = &eventRecorder{}
	h = newMiddlewareOn(t, s, &httplimit.Options{Observer: recorded}, httplimit.Charge{Policy: policy("a", "5/1h")})(ok)
	s.Close()
	serve(h, request("203.0.113.9:1"))
	if e := recorded.all(); len(e) != 1 || !errors.Is(e[0].Err, headgate.ErrClosed) {
		t.Errorf("a closed store: got %v want one event with its error", e)
	}
}

// A request after Retry-After is allowed.
func TestRetryAfterIsExact(t *testing.T) {
	t.Parallel()
	inSynctest(t, func(t *testing.T) {
		h := newMiddleware(t, nil, httplimit.Charge{Policy: policy("api", "7/10s burst 3")})(ok)
		denied := 0
		for range 200 {
			got := serve(h, request("203.0.113.9:1"))
			if got.Code == 200 {
				continue
			}
			denied++
			seconds, err := strconv.Atoi(got.Header().Get("Retry-After"))
			if err != nil || seconds < 1 {
				t.Fatalf("Retry-After %q: want whole seconds from 1", got.Header().Get("Retry-After"))
			}
			time.Sleep(time.Duration(seconds) * time.Second)
			if got := serve(h, request("203.0.113.9:1")); got.Code != 200 {
				t.Fatalf("after Retry-After of %d s: got %d want 200", seconds, got.Code)
			}
		}
		if denied < 10 {
			t.Errorf("%d of 200 denied; want at least 10", denied)
		}
	})
}
