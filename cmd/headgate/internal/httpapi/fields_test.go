package httpapi

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

const start = headgate.Instant(1_747_785_600_000_000)

func newTestHandler(t *testing.T, opts *engine.Options) *Handler {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return New(e, nil)
}

// limitFields returns the header fields of an answer to checks at start.
func limitFields(t *testing.T, h *Handler, checks ...engine.Check) http.Header {
	t.Helper()
	var a engine.Answer
	if err := h.engine.DecideAt(t.Context(), start, headgate.Take, checks, &a); err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	h.fields.Write(header, &a)
	for _, name := range []string{"RateLimit-Policy", "RateLimit"} {
		mustBeList(t, name, header.Get(name))
	}
	return header
}

// mustBeList parses a field as a strict parser of structured fields does.
func mustBeList(t *testing.T, name, value string) httpsfv.List {
	t.Helper()
	list, err := httpsfv.UnmarshalList([]string{value})
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %s: %d items, %v", name, value, len(list), err)
	}
	for _, member := range list {
		if _, ok := member.(httpsfv.Item).Value.(string); !ok {
			t.Errorf("%s: %s: an item is not a string", name, value)
		}
	}
	return list
}

// T38: the fields can be parsed, and contain the right values.
func TestLimitFields(t *testing.T) {
	t.Parallel()
	policies := &engine.Options{Policies: map[string]headgate.Policy{
		"login":     {Limits: []headgate.Limit{headgate.MustParseLimit("5/15m")}},
		"two":       {Limits: []headgate.Limit{headgate.MustParseLimit("5/15m"), headgate.MustParseLimit("3/24h")}},
		"a\"b\\c é": {Limits: []headgate.Limit{headgate.MustParseLimit("1/s")}},
	}}
	limit := func(text, algorithm string, cost int64) engine.Check {
		return engine.Check{Limit: text, Algorithm: algorithm, Key: "k", Cost: cost}
	}
	for _, tt := range []struct {
		name              string
		checks            []engine.Check
		policy, rateLimit string
		cache             string
	}{
		{"a policy", []engine.Check{{Policy: "login", Key: "k", Cost: 1}}, `"login";q=5;w=900`, `"login";r=4;t=720`, ""},
		{"no policy", []engine.Check{limit("100/1m", "", 1)}, `"default";q=100;w=60`, `"default";r=99;t=60`, ""},
		{"a burst", []engine.Check{limit("100/s burst 200", "", 100)}, `"default";q=100;w=1;headgate-burst=200`, `"default";r=100;t=1`, ""},
		{"a queue", []engine.Check{limit("10/s queue 4", "leaky_bucket", 1)}, `"default";q=10;w=1;headgate-burst=5`, `"default";r=4;t=1`, ""},
		{"a part of a second", []engine.Check{limit("5/500ms", "", 1)}, `"default";q=10;w=1;headgate-burst=5`, `"default";r=4;t=1`, ""},
		{"a millisecond", []engine.Check{limit("1000000000/1ms", "", 1)}, `"default";q=1000000000000;w=1;headgate-burst=1000000000`, `"default";r=999999999;t=1`, ""},
		{"a period that cannot be told", []engine.Check{limit("5/1500ms", "", 1)}, `"default";q=5`, `"default";r=4;t=2`, ""},
		{"another", []engine.Check{limit("5/300ms", "", 1)}, `"default";q=5`, `"default";r=4;t=1`, ""},
		{"an emptied bucket", []engine.Check{limit("5/15m", "", 5)}, `"default";q=5;w=900`, `"default";r=0;t=180`, ""},
		{"an emptied interval bucket", []engine.Check{limit("5/15m burst 20", "token_bucket_interval", 20)}, `"default";q=5;w=900;headgate-burst=20`, `"default";r=0;t=900`, ""},
		{"a window", []engine.Check{limit("5/15m", "fixed_window", 5)}, `"default";q=5;w=900`, `"default";r=0;t=900`, ""},
		{"more than the 15 digits of an integer", []engine.Check{limit("9007199254740991/15m", "fixed_window", 1)}, `"default";q=999999999999999;w=900`, `"default";r=999999999999999;t=900`, ""},
		{"15 digits", []engine.Check{limit("9007199254740991/15m", "fixed_window", 8_007_199_254_740_992)}, `"default";q=999999999999999;w=900`, `"default";r=999999999999999;t=900`, ""},
		{"an unused window", []engine.Check{limit("5/15m", "sliding_log", 0)}, `"default";q=5;w=900`, `"default";r=5;t=900`, ""},
		{"never", []engine.Check{limit("5/15m", "", 6)}, `"default";q=5;w=900`, `"default";r=5;t=900`, "no-store"},
		{"denied", []engine.Check{limit("5/15m", "", 4), limit("5/15m", "", 2)}, `"default";q=5;w=900`, `"default";r=5;t=900`, "no-store"},
		{"a name to make safe", []engine.Check{{Policy: "a\"b\\c é", Key: "k"}}, `"a\"b\\c _";q=1;w=1`, `"a\"b\\c _";r=1;t=1`, ""},
		{"the second is the tightest", []engine.Check{{Policy: "two", Key: "k", Cost: 1}}, `"two:5/15m";q=5;w=900, "two:3/d";q=3;w=86400`, `"two:3/d";r=2;t=57600`, ""},
		{
			"several, each once, the third is the tightest",
			[]engine.Check{limit("10/s", "", 1), limit("7/1h", "", 1), {Policy: "login", Key: "a", Cost: 0}, {Policy: "login", Key: "b", Cost: 0}, limit("10/s", "", 0), limit("99/1d", "", 6)},
			`"default";q=10;w=1, "default-2";q=7;w=3600, "login";q=5;w=900, "default-3";q=99;w=86400`, `"login";r=5;t=900`, "",
		},
		{
			"several without a policy, the second is the tightest",
			[]engine.Check{limit("10/s", "", 1), limit("7/1h", "", 1)},
			`"default";q=10;w=1, "default-2";q=7;w=3600`, `"default-2";r=6;t=3086`, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := limitFields(t, newTestHandler(t, policies), tt.checks...)
			if got := header.Get("RateLimit-Policy"); got != tt.policy {
				t.Errorf("RateLimit-Policy: got %s, want %s", got, tt.policy)
			}
			if got := header.Get("RateLimit"); got != tt.rateLimit {
				t.Errorf("RateLimit: got %s, want %s", got, tt.rateLimit)
			}
			if got := header.Get("Cache-Control"); got != tt.cache {
				t.Errorf("Cache-Control: got %q, want %q", got, tt.cache)
			}
		})
	}
}

// T23, T25: Retry-After is set exactly if a wait helps, in whole seconds, rounded up.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit       string
		spend, cost int64
		want        string
	}{
		{"10/s", 10, 1, "1"},   // 0.1 s
		{"10/10s", 10, 1, "1"}, // 1 s
		{"10/10s", 10, 2, "2"}, // 2 s
		{"2/3s", 2, 1, "2"},    // 1.5 s
		{"1/366d", 1, 1, "31622400"},
		{"10/s", 10, 11, ""}, // never
		{"10/s", 9, 1, ""},   // allowed
	} {
		h := newTestHandler(t, nil)
		limitFields(t, h, engine.Check{Limit: tt.limit, Cost: tt.spend})
		header := limitFields(t, h, engine.Check{Limit: tt.limit, Cost: tt.cost})
		if got := header.Get("Retry-After"); got != tt.want {
			t.Errorf("%s, %d spent, cost %d: Retry-After %q, want %q", tt.limit, tt.spend, tt.cost, got, tt.want)
		}
	}
}

// A request with many policies gets header fields of bounded length, which include the
// tightest.
func TestLimitFieldsBounded(t *testing.T) {
	t.Parallel()
	h := newTestHandler(t, &engine.Options{MaxChecks: 500})
	checks := make([]engine.Check, 500)
	for i := range checks {
		checks[i] = engine.Check{Limit: headgate.Limit{Rate: 1000 - int64(i), Period: time.Hour}.String(), Key: "k", Cost: 1}
	}
	header := limitFields(t, h, checks...)
	list := mustBeList(t, "RateLimit-Policy", header.Get("RateLimit-Policy"))
	tightest := mustBeList(t, "RateLimit", header.Get("RateLimit"))[0].(httpsfv.Item)
	if n := len(list); n != 33 {
		t.Errorf("%d policies are listed, want 32 and the tightest", n)
	}
	if last := list[len(list)-1].(httpsfv.Item); last.Value != tightest.Value {
		t.Errorf("RateLimit is about %q, and the last listed is %q", tightest.Value, last.Value)
	}
	if q, _ := list[len(list)-1].(httpsfv.Item).Params.Get("q"); q != int64(501) {
		t.Errorf("the tightest has q=%v, want 501", q)
	}
}

// nowhere takes an answer and keeps only its status.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(status int)      { n.status = status }

// The API's own part of a request makes four allocations, and some more under the race
// detector, whose pools drop items.
func TestCheckAllocations(t *testing.T) {
	h := newTestHandler(t, nil)
	const text = `{"limit":"1/366d","key":"k"}`
	body := strings.NewReader(text)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/check", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body = io.NopCloser(body)
	w := &nowhere{header: http.Header{}}
	got := testing.AllocsPerRun(1000, func() {
		body.Reset(text)
		h.ServeHTTP(w, r)
	})
	if want := 8.0; got > want || w.status != http.StatusTooManyRequests {
		t.Errorf("%v allocations for a denied check (status %d), want at most %v", got, w.status, want)
	}
}
