package httplimit_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// noopHandler is a handler and a response writer without cost, so that only the
// middleware is measured.
type noopHandler struct{ header http.Header }

func (noopHandler) ServeHTTP(http.ResponseWriter, *http.Request) {}
func (n noopHandler) Header() http.Header                        { return n.header }
func (noopHandler) Write(p []byte) (int, error)                  { return len(p), nil }
func (noopHandler) WriteHeader(int)                              {}

// benchCase is one configuration of the middleware.
type benchCase struct {
	name   string
	opts   *httplimit.Options
	charge httplimit.Charge
	addr   string
	allocs float64 // at most
}

func benchCases() []benchCase {
	off := &httplimit.Options{Fields: &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.Off}}}
	wide := policy("api", "1000000000/1s")
	never := func(*http.Request) bool { return false }
	plan := headgate.MustPolicy("900000000/1s burst 1000000000").Limits
	limitsOf := func(*http.Request) []headgate.Limit { return plan }
	return []benchCase{
		{"IPv4", nil, httplimit.Charge{Policy: wide}, "203.0.113.9:4711", 2},
		{"IPv6", nil, httplimit.Charge{Policy: wide}, "[2001:db8:1234:5678:9abc:def0:1234:5678]:4711", 2},
		{"header", nil, httplimit.Charge{Policy: wide, Key: httplimit.Header("Authorization")}, "203.0.113.9:4711", 2},
		{"without fields", off, httplimit.Charge{Policy: wide}, "203.0.113.9:4711", 0},
		{"skipped", &httplimit.Options{Skip: func(*http.Request) bool { return true }}, httplimit.Charge{Policy: wide}, "203.0.113.9:4711", 0},
		{"no charge applies", nil, httplimit.Charge{Policy: wide, When: never}, "203.0.113.9:4711", 0},
		{"limits of a plan", nil, httplimit.Charge{Policy: wide, Limits: limitsOf}, "203.0.113.9:4711", 2},
		{"joined key", nil, httplimit.Charge{Policy: wide, Key: httplimit.Join(httplimit.Address(), httplimit.Method(), httplimit.Path())}, "203.0.113.9:4711", 2},
	}
}

func (s benchCase) serve(t testing.TB) func() {
	store := memstore.New(&memstore.Options{MaxEntries: 1000})
	h := newMiddlewareOn(t, store, s.opts, s.charge)(noopHandler{})
	w, r := noopHandler{http.Header{}}, request(s.addr)
	r.Header.Set("Authorization", "Bearer "+strings.Repeat("a long bearer token ", 40))
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// The middleware adds at most 2 allocations to an allowed request, header fields
// included. BenchmarkServe measures its time.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, s := range benchCases() {
		serve := s.serve(t)
		if got := testing.AllocsPerRun(1000, serve); got > s.allocs {
			t.Errorf("%s: %v allocations want at most %v", s.name, got, s.allocs)
		}
	}
}

func BenchmarkServe(b *testing.B) {
	for _, s := range benchCases() {
		b.Run(s.name, func(b *testing.B) {
			serve := s.serve(b)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
	b.Run("two charges", func(b *testing.B) {
		h := newMiddleware(b, nil, httplimit.Charge{Policy: policy("a", "1000000000/1s")}, httplimit.Charge{Policy: policy("b", "1000000000/1s"), Key: httplimit.Global()})(noopHandler{})
		w, r := noopHandler{http.Header{}}, request("203.0.113.9:4711")
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			h.ServeHTTP(w, r)
		}
	})
	b.Run("denied", func(b *testing.B) {
		h := newMiddleware(b, &httplimit.Options{DeniedHandler: func(http.ResponseWriter, *http.Request, *httplimit.Denial) {}},
			httplimit.Charge{Policy: headgate.MustPolicy("1/24h")})(noopHandler{})
		w, r := noopHandler{http.Header{}}, request("203.0.113.9:4711")
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			h.ServeHTTP(w, r)
		}
	})
}
