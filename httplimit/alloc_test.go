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

// nothing is a handler and a response that cost nothing, so that what is measured is what the middleware adds.
type nothing struct{ header http.Header }

func (nothing) ServeHTTP(http.ResponseWriter, *http.Request) {}
func (n nothing) Header() http.Header                        { return n.header }
func (nothing) Write(p []byte) (int, error)                  { return len(p), nil }
func (nothing) WriteHeader(int)                              {}

// subject is a middleware in one situation.
type subject struct {
	name   string
	opts   *httplimit.Options
	charge httplimit.Charge
	addr   string
	allocs float64 // at most
}

func subjects() []subject {
	off := &httplimit.Options{Fields: &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.Off}}}
	wide := policy("api", "1000000000/1s")
	never := func(*http.Request) bool { return false }
	return []subject{
		{"IPv4", nil, httplimit.Charge{Policy: wide}, "203.0.113.9:4711", 2},
		{"IPv6", nil, httplimit.Charge{Policy: wide}, "[2001:db8:1234:5678:9abc:def0:1234:5678]:4711", 2},
		{"header", nil, httplimit.Charge{Policy: wide, Key: httplimit.Header("Authorization")}, "203.0.113.9:4711", 2},
		{"without fields", off, httplimit.Charge{Policy: wide}, "203.0.113.9:4711", 0},
		{"skipped", &httplimit.Options{Skip: func(*http.Request) bool { return true }}, httplimit.Charge{Policy: wide}, "203.0.113.9:4711", 0},
		{"no charge holds", nil, httplimit.Charge{Policy: wide, When: never}, "203.0.113.9:4711", 0},
		{"joined key", nil, httplimit.Charge{Policy: wide, Key: httplimit.Join(httplimit.Address(), httplimit.Method(), httplimit.Path())}, "203.0.113.9:4711", 2},
	}
}

func (s subject) serve(t testing.TB) func() {
	store := memstore.New(&memstore.Options{MaxEntries: 1000})
	h := over(t, store, s.opts, s.charge)(nothing{})
	w, r := nothing{http.Header{}}, request(s.addr)
	r.Header.Set("Authorization", "Bearer "+strings.Repeat("long as tokens are ", 40))
	return func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// The middleware adds at most 2 allocations to a request that is allowed, header fields included. BenchmarkServe measures its time.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, s := range subjects() {
		serve := s.serve(t)
		if got := testing.AllocsPerRun(1000, serve); got > s.allocs {
			t.Errorf("%s: %v allocations want at most %v", s.name, got, s.allocs)
		}
	}
}

func BenchmarkServe(b *testing.B) {
	for _, s := range subjects() {
		b.Run(s.name, func(b *testing.B) {
			serve := s.serve(b)
			b.ReportAllocs()
			for b.Loop() {
				serve()
			}
		})
	}
	b.Run("two charges", func(b *testing.B) {
		h := by(b, nil, httplimit.Charge{Policy: policy("a", "1000000000/1s")}, httplimit.Charge{Policy: policy("b", "1000000000/1s"), Key: httplimit.Global()})(nothing{})
		w, r := nothing{http.Header{}}, request("203.0.113.9:4711")
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			h.ServeHTTP(w, r)
		}
	})
	b.Run("denied", func(b *testing.B) {
		h := by(b, &httplimit.Options{DeniedHandler: func(http.ResponseWriter, *http.Request, *httplimit.Denial) {}},
			httplimit.Charge{Policy: headgate.MustPolicy("1/24h")})(nothing{})
		w, r := nothing{http.Header{}}, request("203.0.113.9:4711")
		b.ReportAllocs()
		for b.Loop() {
			clear(w.header)
			h.ServeHTTP(w, r)
		}
	})
}
