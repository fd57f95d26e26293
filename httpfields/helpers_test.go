package httpfields_test

import (
	"bufio"
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/memstore"
)

// start is 2025-05-21 00:00:00 UTC, the beginning of a window of every period that
// divides a day.
const start = headgate.Instant(1_747_785_600_000_000)

func timeOf(t headgate.Instant) time.Time { return time.UnixMicro(int64(t)).UTC() }

// request is a list of limits with their state in a store.
type request struct {
	store  headgate.Store
	limits []httpfields.Limit
	ops    []headgate.Op
}

func newStore(tb testing.TB) headgate.Store {
	tb.Helper()
	store := memstore.New(nil)
	tb.Cleanup(func() { _ = store.Close() })
	return store
}

// bind returns a request of limits with the state of key.
func bind(tb testing.TB, store headgate.Store, key string, limits ...httpfields.Limit) *request {
	tb.Helper()
	r, err := tryBind(store, key, limits...)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func tryBind(store headgate.Store, key string, limits ...httpfields.Limit) (*request, error) {
	r := &request{store: store, limits: limits}
	for i := range limits {
		l := &r.limits[i]
		bound, err := store.Bind(headgate.Rule{Scope: string(rune('a' + i)), Name: l.Name, Limit: l.Limit, Algorithm: l.Algorithm})
		if err != nil {
			return nil, err
		}
		l.Capacity = bound.Limit()
		r.ops = append(r.ops, headgate.Op{Bound: bound, Key: key, Cost: 1})
	}
	return r, nil
}

// decide takes or peeks cost units of every limit.
func (r *request) decide(tb testing.TB, now headgate.Instant, cost int64, peek bool) []headgate.Decision {
	tb.Helper()
	for i := range r.ops {
		r.ops[i].Cost = cost
	}
	decisions := make([]headgate.Decision, len(r.ops))
	if err := r.store.ApplyAll(tb.Context(), now, r.ops, peek, decisions); err != nil {
		tb.Fatal(err)
	}
	return decisions
}

// peekOne peeks cost units of the i-th limit.
func (r *request) peekOne(tb testing.TB, i int, now headgate.Instant, cost int64) headgate.Decision {
	tb.Helper()
	d, err := r.ops[i].Bound.Apply(tb.Context(), now, r.ops[i].Key, headgate.Peek, cost)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func newWriter(tb testing.TB, opts *httpfields.Options) *httpfields.Writer {
	tb.Helper()
	w, err := httpfields.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func withDialects(dialects ...httpfields.Dialect) *httpfields.Options {
	return &httpfields.Options{Dialects: dialects}
}

// write returns the header of one response.
func write(w *httpfields.Writer, s *httpfields.Set, decisions []headgate.Decision, now headgate.Instant) http.Header {
	h := http.Header{}
	writeTo(h, w, s, decisions, now)
	return h
}

func writeTo(h http.Header, w *httpfields.Writer, s *httpfields.Set, decisions []headgate.Decision, now headgate.Instant) {
	var text strings.Builder
	text.Grow(128)
	w.Write(h, s, decisions, timeOf(now), &text)
}

// lines returns the fields of a header as text, sorted.
func lines(h http.Header) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			b.WriteString(name + ": " + value + "\n")
		}
	}
	return b.String()
}

// mustPass checks that net/http parses a header without changes.
func mustPass(tb testing.TB, h http.Header) {
	tb.Helper()
	var wire bytes.Buffer
	wire.WriteString("HTTP/1.1 204 No Content\r\n")
	_ = h.Write(&wire)
	wire.WriteString("\r\n")
	resp, err := http.ReadResponse(bufio.NewReaderSize(&wire, wire.Len()), nil)
	if err != nil {
		tb.Fatalf("%v\n%s", err, lines(h))
	}
	if !maps.EqualFunc(resp.Header, h, slices.Equal[[]string]) {
		tb.Fatalf("net/http parses\n%s\nwant\n%s", lines(resp.Header), lines(h))
	}
}

func limit(name, text string, algorithm headgate.Algorithm) httpfields.Limit {
	return httpfields.Limit{Name: name, Limit: headgate.MustParseLimit(text), Algorithm: algorithm}
}
