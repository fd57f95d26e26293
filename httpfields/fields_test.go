package httpfields_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
)

// New returns an error for invalid options and lists the valid ones.
func TestNewOptions(t *testing.T) {
	t.Parallel()
	type list = []httpfields.Dialect
	for _, tt := range []struct {
		name string
		opts httpfields.Options
		want string // part of the error; empty if the options are valid
	}{
		{"zero options", httpfields.Options{}, ""},
		{"no dialect", httpfields.Options{Dialects: list{}}, ""},
		{"zero dialect", httpfields.Options{Dialects: list{""}, AllLimits: true, When: httpfields.NearLimit}, ""},
		{"compatible dialects", httpfields.Options{Dialects: list{httpfields.IETF, httpfields.Draft03, httpfields.GitHub}}, ""},
		{"two drafts", httpfields.Options{Dialects: list{httpfields.Draft07, httpfields.Draft06, httpfields.XRateLimit}}, ""},
		{"two dialects with the same form", httpfields.Options{Dialects: list{httpfields.XRateLimitEpoch, httpfields.GitHub}}, ""},
		{"off", httpfields.Options{Dialects: list{httpfields.Off}, Expose: true}, ""},
		{"unknown", httpfields.Options{Dialects: list{"draft-99"}}, `unknown dialect "draft-99"; must be ietf, draft-07`},
		{"duplicate", httpfields.Options{Dialects: list{httpfields.IETF, ""}}, "duplicate dialect ietf"},
		{"off with another", httpfields.Options{Dialects: list{httpfields.Off, httpfields.IETF}}, "the dialect off cannot be combined"},
		{
			"two forms of RateLimit",
			httpfields.Options{Dialects: list{httpfields.Draft07, httpfields.IETF}},
			"ietf and draft-07 write RateLimit in different forms",
		},
		{
			"two forms of RateLimit-Policy",
			httpfields.Options{Dialects: list{httpfields.IETF, httpfields.Draft06}},
			"ietf and draft-06 write RateLimit-Policy in different forms",
		},
		{
			"two forms of RateLimit-Limit",
			httpfields.Options{Dialects: list{httpfields.Draft03, httpfields.Draft06}},
			"draft-06 and draft-03 write RateLimit-Limit in different forms",
		},
		{
			"two forms of Reset",
			httpfields.Options{Dialects: list{httpfields.XRateLimitEpoch, httpfields.XRateLimit}},
			"x-ratelimit and x-ratelimit-epoch write X-RateLimit-Reset in different forms",
		},
		{
			"two forms of Reset, by GitHub",
			httpfields.Options{Dialects: list{httpfields.GitHub, httpfields.XRateLimit}},
			"x-ratelimit and github write X-RateLimit-Reset in different forms",
		},
		{"AllLimits without ietf", httpfields.Options{Dialects: list{httpfields.GitHub}, AllLimits: true}, "AllLimits requires the dialect ietf"},
		{"unknown When", httpfields.Options{When: "never"}, `When is "never"; must be always, near or denied`},
	} {
		_, err := httpfields.New(&tt.opts)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (!errors.Is(err, httpfields.ErrInvalidOptions) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want …%s…", tt.name, err, tt.want)
		}
	}
	if newWriter(t, nil).NeedsTime() || !newWriter(t, withDialects(httpfields.GitHub)).NeedsTime() {
		t.Error("NeedsTime: want true only for times since 1970")
	}
}

func allowed(limit, remaining int64) []headgate.Decision {
	return []headgate.Decision{{Allowed: true, Limit: limit, Remaining: remaining, ResetAfter: time.Second}}
}

// When selects the responses with fields. A denial always has them.
func TestWhen(t *testing.T) {
	t.Parallel()
	denial := []headgate.Decision{{Limit: 100, Remaining: 50, RetryAfter: time.Second}}
	never := []headgate.Decision{{Limit: 100, Remaining: 100, Never: true}}
	for _, tt := range []struct {
		when      httpfields.When
		decisions []headgate.Decision
		want      string // the fields
	}{
		{"", allowed(100, 99), "Ratelimit Ratelimit-Policy"},
		{httpfields.Always, never, "Cache-Control Ratelimit Ratelimit-Policy"},
		{httpfields.NearLimit, allowed(100, 11), ""},
		{httpfields.NearLimit, allowed(100, 10), "Ratelimit Ratelimit-Policy"},
		{httpfields.NearLimit, allowed(9, 1), ""},
		{httpfields.NearLimit, allowed(9, 0), "Ratelimit Ratelimit-Policy"},
		{httpfields.NearLimit, denial, "Cache-Control Ratelimit Ratelimit-Policy Retry-After"},
		{httpfields.OnDenial, allowed(100, 0), ""},
		{httpfields.OnDenial, denial, "Cache-Control Ratelimit Ratelimit-Policy Retry-After"},
	} {
		w := newWriter(t, &httpfields.Options{When: tt.when})
		var got []string
		for line := range strings.Lines(lines(write(w, w.Set(limit("a", "100/1m", "")), tt.decisions, start))) {
			name, _, _ := strings.Cut(line, ":")
			got = append(got, name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s, %+v: got %v, want %s", tt.when, tt.decisions, got, tt.want)
		}
	}
}

// NearLimit sends the fields if any of the limits is near.
func TestNearLimitOfAnyLimit(t *testing.T) {
	t.Parallel()
	w := newWriter(t, &httpfields.Options{When: httpfields.NearLimit})
	s := w.Set(limit("a", "5/1m", ""), limit("b", "1000/1h", ""))
	if h := write(w, s, append(allowed(5, 4), allowed(1000, 100)...), start); h.Get("RateLimit") != `"a";r=4;t=48` {
		t.Errorf("got %s", lines(h))
	}
}

// Decisions with values that no store returns give fields that can be parsed.
func TestInvalidDecisions(t *testing.T) {
	t.Parallel()
	const huge = 1<<63 - 1
	w := newWriter(t, withDialects(httpfields.IETF, httpfields.Draft03, httpfields.GitHub))
	for _, algorithm := range algorithms {
		s := w.Set(httpfields.Limit{Limit: headgate.MustParseLimit("1/366d"), Algorithm: algorithm, Capacity: huge})
		for _, d := range []headgate.Decision{
			{},
			{Never: true},
			{Limit: huge, Remaining: huge, ResetAfter: huge, RetryAfter: huge, Allowed: true},
			{RetryAfter: huge},
			{Limit: -1, Remaining: -huge, ResetAfter: -huge, RetryAfter: -1},
			{Limit: huge, ResetAfter: huge, Degraded: headgate.ReasonTimedOut},
			{Allowed: true, Remaining: huge, Degraded: headgate.ReasonUnreachable},
			{Remaining: 1, ResetAfter: -1},
		} {
			for _, now := range []headgate.Instant{0, start, headgate.MaxInstant} {
				h := write(w, s, []headgate.Decision{d}, now)
				mustPass(t, h)
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Reset", "X-RateLimit-Used", "X-RateLimit-Reset"} {
					if _, err := httpsfv.UnmarshalList(h.Values(name)); err != nil || strings.Contains(h.Get(name), "-1") {
						t.Errorf("%+v: %s: %s: %v", d, name, h.Get(name), err)
					}
				}
				if retry := h.Get("Retry-After"); !d.Allowed && !d.Never && (retry == "" || retry == "0") {
					t.Errorf("%+v: Retry-After is %q", d, retry)
				}
			}
		}
	}
}

// For a degraded decision the fields use its own waits: a share of the limit refills
// more slowly.
func TestDegradedDecisions(t *testing.T) {
	t.Parallel()
	w := newWriter(t, withDialects(httpfields.IETF, httpfields.Draft03, httpfields.XRateLimit))
	l := limit("a", "100/1m", "")
	reason := headgate.ReasonUnreachable
	for _, tt := range []struct {
		d                             headgate.Decision
		rateLimit, limitField, xLimit string
	}{
		{headgate.Decision{Allowed: true, Limit: 100, Remaining: 100, Degraded: reason}, `"a";r=100;t=60`, "100, 100;w=60", "100"},
		{headgate.Decision{Allowed: true, Limit: 10, Remaining: 5, ResetAfter: 30 * time.Second, Degraded: reason}, `"a";r=5;t=30`, "10, 100;w=60", "10"},
		{headgate.Decision{Allowed: true, Limit: 10, ResetAfter: 60 * time.Second, Degraded: reason}, `"a";r=0;t=60`, "10, 100;w=60", "10"},
		{headgate.Decision{Limit: 10, RetryAfter: 5100 * time.Millisecond, ResetAfter: 60 * time.Second, Degraded: reason}, `"a";r=0;t=6`, "10, 100;w=60", "10"},
	} {
		h := write(w, w.Set(l), []headgate.Decision{tt.d}, start)
		if h.Get("RateLimit") != tt.rateLimit || h.Get("RateLimit-Limit") != tt.limitField || h.Get("X-RateLimit-Limit") != tt.xLimit {
			t.Errorf("%+v: got\n%s", tt.d, lines(h))
		}
	}
}

// Different limits with the same name get numbers. A limit that is listed twice is
// written once, with the lower remaining.
func TestDuplicateNames(t *testing.T) {
	t.Parallel()
	w := newWriter(t, &httpfields.Options{AllLimits: true})
	ten, hour := limit("a", "10/1s", ""), limit("a", "100/1h", "")
	s := w.Set(ten, hour, limit("a-2", "5/1m", ""), ten, limit("a", "10/1s", headgate.GCRA), limit("", "7/1s", ""))
	d := append(append(allowed(10, 3), allowed(100, 50)...), append(allowed(5, 4), allowed(10, 2)...)...)
	h := write(w, s, append(d, append(allowed(10, 2), allowed(7, 7)...)...), start)
	want := `Ratelimit: "a-2";r=50;t=1800, "a-2-2";r=4;t=48, "a";r=2;t=1, "default";r=7;t=1
Ratelimit-Policy: "a";q=10;w=1, "a-2";q=100;w=3600, "a-2-2";q=5;w=60, "default";q=7;w=1
`
	if got := lines(h); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Two limits with the same quota are listed once in the earlier drafts, with the longer
// window.
func TestEarlierDraftsEqualQuotas(t *testing.T) {
	t.Parallel()
	w := newWriter(t, withDialects(httpfields.Draft06))
	s := w.Set(limit("a", "10/1s", ""), limit("b", "10/1h", ""), limit("c", "10/1m", ""), limit("d", "20/1m", ""), limit("e", "3/1500ms", ""))
	h := write(w, s, append(append(allowed(10, 9), allowed(10, 9)...), append(allowed(10, 9), append(allowed(20, 19), allowed(3, 2)...)...)...), start)
	if got := h.Get("RateLimit-Policy"); got != "10;w=3600, 20;w=60" {
		t.Errorf("got %s", got)
	}
	h = write(w, w.Set(limit("e", "3/1500ms", "")), allowed(3, 2), start)
	if got, found := h["Ratelimit-Policy"]; found {
		t.Errorf("a limit whose window cannot be expressed is listed: %s", got)
	}
}

// A field lists at most 32 limits and the tightest one.
func TestListsHaveMaximumLength(t *testing.T) {
	t.Parallel()
	for _, allLimits := range []bool{false, true} {
		w := newWriter(t, &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.IETF, httpfields.Draft03}, AllLimits: allLimits})
		var limits []httpfields.Limit
		var decisions []headgate.Decision
		for i := range int64(500) {
			limits = append(limits, httpfields.Limit{Limit: headgate.Limit{Rate: 1000 - i, Period: time.Hour}})
			decisions = append(decisions, allowed(1000-i, 999-i)...)
		}
		h := write(w, w.Set(limits...), decisions, start)
		for name, want := range map[string]int{"RateLimit-Policy": 33, "RateLimit": map[bool]int{false: 1, true: 33}[allLimits], "RateLimit-Limit": 33} {
			list, err := httpsfv.UnmarshalList(h.Values(name))
			if err != nil || len(list) != want {
				t.Errorf("%s: %d items, want %d: %v", name, len(list), want, err)
			}
		}
		if got := h.Get("RateLimit-Policy"); !strings.HasSuffix(got, `"default-500";q=501;w=3600`) {
			t.Errorf("the tightest is not in %s", got)
		}
	}
}

// Set panics for limits that only a mistake in a program can cause.
func TestInvalidSetPanics(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	for name, limits := range map[string][]httpfields.Limit{"empty": nil, "invalid": {{Name: "a"}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			w.Set(limits...)
		}()
	}
}

// Write makes one allocation in addition to the text.
func TestWriteAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	for _, tt := range []struct {
		name string
		opts *httpfields.Options
		d    headgate.Decision
	}{
		{"ietf", nil, headgate.Decision{Allowed: true, Limit: 100, Remaining: 42, ResetAfter: time.Second}},
		{"ietf, denied", nil, headgate.Decision{Limit: 100, RetryAfter: time.Second, ResetAfter: time.Minute}},
		{"draft-07", withDialects(httpfields.Draft07), headgate.Decision{Allowed: true, Limit: 100, Remaining: 42, ResetAfter: time.Second}},
		{
			"several dialects", &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.IETF, httpfields.Draft03, httpfields.GitHub}, Expose: true},
			headgate.Decision{Limit: 100, Remaining: 42, RetryAfter: time.Second, ResetAfter: time.Minute},
		},
	} {
		w := newWriter(t, tt.opts)
		s := w.Set(limit("login", "100/1m", ""))
		h, decisions, now := make(http.Header, 16), []headgate.Decision{tt.d}, timeOf(start)
		got := testing.AllocsPerRun(1000, func() {
			clear(h)
			var text strings.Builder
			text.Grow(128)
			w.Write(h, s, decisions, now, &text)
		})
		if got > 2 {
			t.Errorf("%s: %v allocations including the text, want 2", tt.name, got)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, bb := range []struct {
		name string
		opts *httpfields.Options
		d    headgate.Decision
	}{
		{"ietf", nil, headgate.Decision{Allowed: true, Limit: 100, Remaining: 42, ResetAfter: time.Second}},
		{"ietf-denied", nil, headgate.Decision{Limit: 100, RetryAfter: time.Second, ResetAfter: time.Minute}},
		{"github", withDialects(httpfields.GitHub), headgate.Decision{Allowed: true, Limit: 100, Remaining: 42, ResetAfter: time.Second}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := newWriter(b, bb.opts)
			s := w.Set(limit("login", "100/1m", ""))
			h, decisions, now := make(http.Header, 16), []headgate.Decision{bb.d}, timeOf(start)
			b.ReportAllocs()
			for b.Loop() {
				clear(h)
				var text strings.Builder
				text.Grow(128)
				w.Write(h, s, decisions, now, &text)
			}
		})
	}
}

// Name returns the names that the fields have.
func TestSetNames(t *testing.T) {
	t.Parallel()
	w := newWriter(t, nil)
	hour, minute := limit("é api", "9/1h", ""), limit("è api", "9/1m", "")
	s := w.Set(hour, minute, hour, limit("", "9/1h", ""))
	h := write(w, s, append(allowed(9, 8), append(allowed(9, 8), append(allowed(9, 8), allowed(9, 8)...)...)...), start)
	for i, want := range []string{"_ api", "_ api-2", "_ api", "default"} {
		if got := s.Name(i); got != want || !strings.Contains(h.Get("RateLimit-Policy"), `"`+want+`";q=`) {
			t.Errorf("limit %d: got name %q want %q, and field %s", i, got, want, h.Get("RateLimit-Policy"))
		}
	}
}
