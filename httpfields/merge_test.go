package httpfields_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
)

// header parses a header from lines.
func header(text string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		h.Add(name, value)
	}
	return h
}

// Lists are appended to. Of two families of single values the one with less remaining
// is sent.
func TestMergeWithExistingFields(t *testing.T) {
	t.Parallel()
	denial := []headgate.Decision{{Limit: 100, Remaining: 5, RetryAfter: time.Second, ResetAfter: time.Minute}}
	const theirs = "Ratelimit-Limit: 7, 7;w=1\nRatelimit-Remaining: 5\nRatelimit-Reset: 1\n"
	const xTheirs = "X-Ratelimit-Limit: 7\nX-Ratelimit-Remaining: 5\nX-Ratelimit-Reset: 1\n"
	const dictionary = "Ratelimit: limit=7, remaining=5, reset=1\n"
	for _, tt := range []struct {
		name      string
		dialect   httpfields.Dialect
		existing  string
		decisions []headgate.Decision
		want      string
	}{
		{
			"a list", httpfields.IETF, "Ratelimit: \"up\";r=1\nRatelimit: \"two\";r=1\nRatelimit-Policy: \"up\";q=1\n", allowed(100, 50),
			"Ratelimit: \"up\";r=1\nRatelimit: \"two\";r=1\nRatelimit: \"a\";r=50;t=30\nRatelimit-Policy: \"up\";q=1\nRatelimit-Policy: \"a\";q=100;w=60\n",
		},
		{
			"the same policy", httpfields.IETF, "Ratelimit: \"a\";r=51;t=31\nRatelimit-Policy: \"a\";q=100;w=60\n", allowed(100, 50),
			"Ratelimit: \"a\";r=51;t=31\nRatelimit: \"a\";r=50;t=30\nRatelimit-Policy: \"a\";q=100;w=60\n",
		},
		{
			"a dictionary with less", httpfields.IETF, dictionary + "Ratelimit-Policy: 7;w=1\n", allowed(100, 50),
			dictionary + "Ratelimit-Policy: 7;w=1\n",
		},
		{
			"a dictionary with more", httpfields.IETF, dictionary + "Ratelimit-Policy: 7;w=1\n", allowed(100, 4),
			"Ratelimit: \"a\";r=4;t=3\nRatelimit-Policy: \"a\";q=100;w=60\n",
		},
		{
			"a value that cannot be parsed", httpfields.IETF, "Ratelimit: ???\n", allowed(100, 50),
			"Ratelimit: \"a\";r=50;t=30\nRatelimit-Policy: \"a\";q=100;w=60\n",
		},
		{
			"policies of another draft", httpfields.IETF, theirs + "Ratelimit-Policy: 7;w=1\n", allowed(100, 50),
			"Ratelimit: \"a\";r=50;t=30\n" + theirs[:strings.Index(theirs, "Ratelimit-Rem")] +
				"Ratelimit-Policy: \"a\";q=100;w=60\nRatelimit-Remaining: 5\nRatelimit-Reset: 1\n",
		},
		{
			"a dictionary with less, and ours", httpfields.Draft07, dictionary + "Ratelimit-Policy: 7;w=1\n", allowed(100, 50),
			dictionary + "Ratelimit-Policy: 7;w=1\nRatelimit-Policy: 100;w=60\n",
		},
		{"a dictionary with the same remaining, denied", httpfields.Draft07, dictionary, denial, "Cache-Control: no-store\nRatelimit: limit=100, remaining=5, reset=1\nRatelimit-Policy: 100;w=60\nRetry-After: 1\n"},
		{
			"a list with less, and our dictionary", httpfields.Draft07, "Ratelimit: \"u\";r=9;t=1, \"v\";r=3;t=1\nRatelimit-Policy: \"u\";q=9\n", allowed(100, 4),
			"Ratelimit: \"u\";r=9;t=1, \"v\";r=3;t=1\nRatelimit-Policy: \"u\";q=9\n",
		},
		{
			"a list with more, and our dictionary", httpfields.Draft07, "Ratelimit: \"u\";r=9;t=1\nRatelimit-Policy: \"u\";q=9\n", allowed(100, 4),
			"Ratelimit: limit=100, remaining=4, reset=3\nRatelimit-Policy: 100;w=60\n",
		},
		{
			"a list with less, spaced, and our dictionary", httpfields.Draft07, "Ratelimit: \"u\"; r=3;  t=1\nRatelimit-Policy: \"u\"; q=9\n", allowed(100, 4),
			"Ratelimit: \"u\"; r=3;  t=1\nRatelimit-Policy: \"u\"; q=9\n",
		},
		{
			"less, with parameters", httpfields.Draft06, "Ratelimit-Limit: 7;x\nRatelimit-Remaining: 3; x=1\nRatelimit-Reset: 1\n", allowed(100, 4),
			"Ratelimit-Limit: 7;x\nRatelimit-Policy: 100;w=60\nRatelimit-Remaining: 3; x=1\nRatelimit-Reset: 1\n",
		},
		{"less in single values", httpfields.Draft03, theirs, allowed(100, 50), theirs},
		{"same remaining in single values", httpfields.Draft03, theirs, allowed(100, 5), theirs},
		{"more in single values", httpfields.Draft06, theirs, allowed(100, 4), "Ratelimit-Limit: 100\nRatelimit-Policy: 100;w=60\nRatelimit-Remaining: 4\nRatelimit-Reset: 3\n"},
		{"same remaining, denied", httpfields.XRateLimit, xTheirs, denial, "Cache-Control: no-store\nRetry-After: 1\nX-Ratelimit-Limit: 100\nX-Ratelimit-Remaining: 5\nX-Ratelimit-Reset: 60\n"},
		{"less", httpfields.XRateLimit, xTheirs + "X-Ratelimit-Used: 2\n", allowed(100, 6), xTheirs + "X-Ratelimit-Used: 2\n"},
		{"more, with a resource", httpfields.XRateLimit, xTheirs + "X-Ratelimit-Resource: up\nX-Ratelimit-Used: 2\n", allowed(100, 4), "X-Ratelimit-Limit: 100\nX-Ratelimit-Remaining: 4\nX-Ratelimit-Reset: 1\n"},
		{"an invalid number", httpfields.XRateLimit, "X-Ratelimit-Limit: 7\nX-Ratelimit-Remaining: 5 left\n", allowed(100, 6), "X-Ratelimit-Limit: 100\nX-Ratelimit-Remaining: 6\nX-Ratelimit-Reset: 1\n"},
		{"two numbers", httpfields.XRateLimit, "X-Ratelimit-Remaining: 1\nX-Ratelimit-Remaining: 2\n", allowed(100, 6), "X-Ratelimit-Limit: 100\nX-Ratelimit-Remaining: 6\nX-Ratelimit-Reset: 1\n"},
		{"a Retry-After, denied", httpfields.Off, "Cache-Control: public\nRetry-After: 99\n", denial, "Cache-Control: no-store\nRetry-After: 1\n"},
		{"a Retry-After, allowed", httpfields.Off, "Retry-After: 99\n", allowed(1, 0), "Retry-After: 99\n"},
		{"a Retry-After, cost above the limit", httpfields.Off, "Retry-After: 99\n", []headgate.Decision{{Never: true}}, "Cache-Control: no-store\n"},
	} {
		w := newWriter(t, withDialects(tt.dialect))
		h := header(tt.existing)
		writeTo(h, w, w.Set(limit("a", "100/1m", "")), tt.decisions, start)
		if got := lines(h); got != tt.want {
			t.Errorf("%s: got\n%swant\n%s", tt.name, got, tt.want)
		}
	}
}

// With nested middlewares both lists are sent, and the tighter single values. Values
// that responses share do not change.
func TestNestedWriters(t *testing.T) {
	t.Parallel()
	opts := &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.IETF, httpfields.GitHub}, Expose: true}
	outer, inner := newWriter(t, opts), newWriter(t, opts)
	outerSet, innerSet := outer.Set(limit("outer", "100/1m", "")), inner.Set(limit("inner", "10/1m", ""))
	want := ""
	for range 3 {
		h := http.Header{}
		h.Set("Access-Control-Expose-Headers", "X-Total")
		writeTo(h, outer, outerSet, allowed(100, 50), start)
		writeTo(h, inner, innerSet, allowed(10, 5), start)
		got := lines(h)
		if want == "" {
			want = got
		}
		if got != want || len(h.Values("RateLimit")) != 2 || len(h.Values("RateLimit-Policy")) != 2 ||
			len(h.Values("Access-Control-Expose-Headers")) != 2 || h.Get("X-RateLimit-Resource") != "inner" {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		h["Ratelimit-Policy"][1] = "changed" // appended values belong to this response
	}
}

// Appending to one field does not change others, although all values are in one slice.
func TestAppendDoesNotChangeOtherValues(t *testing.T) {
	t.Parallel()
	w := newWriter(t, withDialects(httpfields.IETF, httpfields.Draft03, httpfields.GitHub))
	h := write(w, w.Set(limit("a", "100/1m", "")), []headgate.Decision{{Limit: 100, RetryAfter: time.Second, ResetAfter: time.Minute}}, start)
	want := lines(h)
	for name := range h {
		before := h[name]
		h[name] = append(before, "more")
		h[name] = before
	}
	if got := lines(h); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// For every policy name and every existing header, the fields can be parsed, and an
// existing list stays valid.
func FuzzNamesAndHeaders(f *testing.F) {
	f.Add("login", `"up";r=1;t=2`, "5", int64(3))
	f.Add(`a"b\c`, "limit=1, remaining=2, reset=3", "5, 6", int64(0))
	f.Add("\x00\r\né\xff", `"`, "", int64(-5))
	f.Add(strings.Repeat(`\`, 300), `"x";r=99999999999999999999`, "99999999999999999999", int64(1)<<62)
	f.Add(`";r=0`, "remaining=", " 1\t", int64(10))
	all := [][]httpfields.Dialect{{httpfields.IETF, httpfields.Draft03, httpfields.GitHub}, {httpfields.Draft07, httpfields.Draft06}}
	f.Fuzz(func(t *testing.T, name, existing, number string, remaining int64) {
		for i, dialects := range all {
			w := newWriter(t, withDialects(dialects...))
			s := w.Set(limit(name, "10/1s", ""), limit(name+"x", "100/1m", ""))
			decisions := []headgate.Decision{{Limit: 10, Remaining: remaining, RetryAfter: time.Second}, {Allowed: true, Limit: 100, Remaining: 7}}
			alone := write(w, s, decisions, start)
			mustPass(t, alone)
			mustRead(t, alone, i == 1)

			h := http.Header{"Ratelimit": {existing}, "X-Ratelimit-Remaining": {number}, "Ratelimit-Remaining": {number}}
			_, err := httpsfv.UnmarshalList([]string{existing})
			readable := err == nil && strings.HasPrefix(strings.TrimLeft(existing, " "), `"`)
			writeTo(h, w, s, decisions, start)
			if readable && i == 0 {
				mustRead(t, h, false)
				if h["Ratelimit"][0] != existing {
					t.Errorf("got %q replaced with %q", existing, h["Ratelimit"])
				}
			}
			for _, key := range []string{"X-Ratelimit-Remaining", "Ratelimit-Remaining"} {
				if len(h[key]) != 1 || h[key][0] != number && h[key][0] != alone[key][0] && alone[key] != nil {
					t.Errorf("%s is %q, want %q or our value", key, h[key], number)
				}
			}
		}
	})
}

// mustRead checks that a strict parser of structured fields accepts each of our fields.
func mustRead(t *testing.T, h http.Header, dictionary bool) {
	t.Helper()
	for name, values := range h {
		if strings.HasPrefix(name, "X-") || !strings.HasPrefix(name, "Ratelimit") || name == "Ratelimit-Remaining" {
			continue
		}
		var err error
		if dictionary && name == "Ratelimit" {
			_, err = httpsfv.UnmarshalDictionary(values)
		} else {
			_, err = httpsfv.UnmarshalList(values)
		}
		if err != nil {
			t.Errorf("%s: %q: %v", name, values, err)
		}
	}
}
