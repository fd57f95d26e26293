package replay

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestLogLine(t *testing.T) {
	const head = `192.0.2.7 - - [17/May/2015:10:05:03 +0000] `
	for _, tt := range []struct {
		name, line             string
		ip, user, method, path string
		at                     string // RFC 3339
		reason                 string // if set, no other field
	}{
		{name: "combined", line: head + `"GET /a?b=c HTTP/1.1" 200 5 "http://r/" "agent"`, method: "GET", path: "/a"},
		{name: "common", line: head + `"POST /a HTTP/1.1" 200 5`, method: "POST", path: "/a"},
		{name: "no size", line: head + `"GET / HTTP/1.1" 304 -`, method: "GET", path: "/"},
		{name: "IPv6", line: `2001:db8::1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5`, ip: "2001:db8::1", method: "GET", path: "/"},
		{name: "host name", line: `a.example. - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5`, ip: "a.example.", method: "GET", path: "/"},
		{name: "user", line: `192.0.2.7 id frank [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5`, user: "frank", method: "GET", path: "/"},
		{name: "user with spaces", line: `192.0.2.7 - a b [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5`, user: "a b", method: "GET", path: "/"},
		{name: "escaped quote", line: head + `"GET /a\"b HTTP/1.1" 200 5 "-" "x \"y\" z"`, method: "GET", path: `/a\"b`},
		{name: "escaped quote that looks like the end", line: head + `"GET /a\" 200 5" 404 7`, method: "GET", path: `/a\" 200 5`},
		{name: "escaped backslash before the end", line: head + `"GET /a\\" 200 5`, method: "GET", path: `/a\\`},
		{name: "bare quote", line: head + `"GET /a"b HTTP/1.1" 200 5`, method: "GET", path: `/a"b`},
		{name: "no request", line: head + `"-" 408 0`, method: "-", path: "-"},
		{name: "empty request", line: head + `"" 400 0`, method: "-", path: "-"},
		{name: "TLS on a plain port", line: head + `"\x16\x03\x01" 400 226`, method: "-", path: "-"},
		{name: "no protocol", line: head + `"GET /" 200 5`, method: "GET", path: "/"},
		{name: "path with spaces", line: head + `"GET /a b HTTP/1.1" 200 5`, method: "GET", path: "/a b"},
		{name: "only a query", line: head + `"GET ?x HTTP/1.1" 200 5`, method: "GET", path: "-"},
		{name: "agent cut off", line: head + `"GET / HTTP/1.1" 200 5 "-" "Mozil`, method: "GET", path: "/"},
		{name: "more fields", line: head + `"GET / HTTP/1.1" 200 5 "-" "-" 0.003 "x"`, method: "GET", path: "/"},
		{name: "zone east", line: `192.0.2.7 - - [29/Feb/2016:00:30:00 +0545] "GET / HTTP/1.1" 200 5`, method: "GET", path: "/", at: "2016-02-28T18:45:00Z"},
		{name: "zone west", line: `192.0.2.7 - - [31/Dec/2015:23:30:00 -0330] "GET / HTTP/1.1" 200 5`, method: "GET", path: "/", at: "2016-01-01T03:00:00Z"},
		{name: "leap second", line: `192.0.2.7 - - [30/Jun/2015:23:59:60 +0000] "GET / HTTP/1.1" 200 5`, method: "GET", path: "/", at: "2015-07-01T00:00:00Z"},
		{name: "first instant", line: `192.0.2.7 - - [01/Jan/1970:01:00:00 +0100] "GET / HTTP/1.1" 200 5`, method: "GET", path: "/", at: "1970-01-01T00:00:00Z"},

		{name: "one word", line: "junk", reason: badNoTime},
		{name: "space first", line: " - - [17/May/2015:10:05:03 +0000]", reason: badNoTime},
		{name: "no user", line: "192.0.2.7 - [17/May/2015:10:05:03 +0000] ", reason: badNoTime},
		{name: "no bracket", line: `192.0.2.7 - - 17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5`, reason: badNoTime},
		{name: "cut in the time", line: "192.0.2.7 - - [17/May/2015:10:05:03 +00", reason: badTime},
		{name: "no such month", line: strings.Replace(head, "May", "Mai", 1) + `"GET / HTTP/1.1" 200 5`, reason: badTime},
		{name: "no such day", line: strings.Replace(head, "17/May", "31/Jun", 1) + `"GET / HTTP/1.1" 200 5`, reason: badTime},
		{name: "no such hour", line: strings.Replace(head, ":10:", ":24:", 1) + `"GET / HTTP/1.1" 200 5`, reason: badTime},
		{name: "no such minute", line: strings.Replace(head, ":05:", ":60:", 1) + `"GET / HTTP/1.1" 200 5`, reason: badTime},
		{name: "no such second", line: strings.Replace(head, ":03 ", ":61 ", 1) + `"GET / HTTP/1.1" 200 5`, reason: badTime},
		{name: "no zone", line: strings.Replace(head, "+0000", "GMT+0", 1) + `"GET / HTTP/1.1" 200 5`, reason: badTime},
		{name: "before 1970", line: strings.Replace(head, "2015", "1969", 1) + `"GET / HTTP/1.1" 200 5`, reason: badInstant},
		{name: "after 2155", line: strings.Replace(head, "2015", "2199", 1) + `"GET / HTTP/1.1" 200 5`, reason: badInstant},
		{name: "no request", line: head, reason: badRequest},
		{name: "request not quoted", line: head + `GET / HTTP/1.1 200 5`, reason: badRequest},
		{name: "cut in the request", line: head + `"GET / HT`, reason: badRequest},
		{name: "no status", line: head + `"GET / HTTP/1.1"`, reason: badRequest},
		{name: "status no number", line: head + `"GET / HTTP/1.1" OK 5`, reason: badRequest},
		{name: "no size", line: head + `"GET / HTTP/1.1" 200`, reason: badRequest},
		{name: "size no number", line: head + `"GET / HTTP/1.1" 200 5k`, reason: badRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l logLine
			if reason := l.parse([]byte(tt.line), &logClock{}); reason != tt.reason {
				t.Fatalf("parse(%q): reason %q, want %q", tt.line, reason, tt.reason)
			}
			if tt.reason != "" {
				return
			}
			for _, f := range []struct {
				name      string
				got, want string
			}{
				{"ip", string(l.field(keyIP)), or(tt.ip, "192.0.2.7")},
				{"user", string(l.field(keyUser)), or(tt.user, "-")},
				{"method", string(l.field(keyMethod)), tt.method},
				{"path", string(l.field(keyPath)), tt.path},
				{"time", time.UnixMicro(l.at).UTC().Format(time.RFC3339), or(tt.at, "2015-05-17T10:05:03Z")},
			} {
				if f.got != f.want {
					t.Errorf("parse(%q): %s %q, want %q", tt.line, f.name, f.got, f.want)
				}
			}
		})
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// TestLogClockCache: the cached day and zone do not affect lines of other days and
// zones.
func TestLogClockCache(t *testing.T) {
	var c logClock
	for _, text := range []string{
		"17/May/2015:10:05:03 +0000", "17/May/2015:23:59:59 +0000", "18/May/2015:00:00:00 +0000", "17/May/2015:10:05:03 +0200",
		"17/May/2015:10:05:03 -0200", "17/May/2016:10:05:03 -0200", "17/Mai/2016:10:05:03 -0200", "17/May/2016:10:05:04 -0200",
		"17/May/2016:10:05:04 -02x0", "17/May/2016:10:05:05 -0200",
	} {
		got, reason := c.read([]byte(text))
		want, err := time.Parse(timeLayout, text)
		if (reason != "") != (err != nil) || err == nil && got != want.UnixMicro() {
			t.Errorf("read(%q) = %d, %q; want %v, %v", text, got, reason, want, err)
		}
	}
}

// logPattern is Combined and Common Log Format as a regular expression; it ignores
// everything after the size.
var logPattern = regexp.MustCompile(`(?s)^[^ ]+ [^ ]+ .*? \[([^\]]{26})\] ".*" (-|[0-9]+) (-|[0-9]+)( |$)`)

func FuzzLogLine(f *testing.F) {
	for _, line := range []string{
		`192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 5 "-" "x \"y\""`,
		`2001:db8::1 - a b [29/Feb/2016:23:59:60 -0330] "-" 408 -`,
		`h - - [17/May/2015:10:05:03 +0000] "GET /\" 200 5" 404 7`,
		`h - - [17/May/2015:10:05:03 +0000] "\\" 1 2`, `h  [`, "", "\x00\xff",
	} {
		f.Add([]byte(line), "ip+path")
	}
	f.Fuzz(func(t *testing.T, line []byte, key string) {
		k, err := ParseKey(key)
		if err != nil {
			k = Key{}
		}
		before := string(line)
		r := lineReader{key: k}
		at, cost, got, reason := r.read(Common, line)
		if string(line) != before {
			t.Fatalf("read(%q) changed the line to %q", before, line)
		}
		if reason != "" {
			return
		}
		if !logPattern.Match(line) || cost != 1 || len(got) == 0 || !headgate.Instant(at).Valid() {
			t.Errorf("read(%q) = at %d, cost %d, key %q, although it is no log line", line, at, cost, got)
		}
		if len(k.fields) < 2 && !strings.Contains(before, string(got)) && string(got) != "-" {
			t.Errorf("read(%q): key %q is not in the line", line, got)
		}
	})
}

func FuzzLogClock(f *testing.F) {
	f.Add("17/May/2015:10:05:03 +0000", "18/May/2015:10:05:03 -0330")
	f.Add("29/Feb/2016:23:59:59 +0545", "29/Feb/2015:00:00:00 +0000")
	f.Fuzz(func(t *testing.T, first, second string) {
		if len(first) != timeLength || len(second) != timeLength {
			return
		}
		var c logClock
		_, _ = c.read([]byte(first)) // its cache must not matter
		got, reason := c.read([]byte(second))
		want, err := time.Parse(timeLayout, second)
		switch {
		case reason == "" && second[dayLength+7:dayLength+9] == "60":
		case reason == "" && (err != nil || got != want.UnixMicro()):
			t.Errorf("read(%q) after %q = %d; want %v, %v", second, first, got, want, err)
		case reason == badTime && err == nil && second[zoneStart+1:zoneStart+3] <= "23" && second[zoneStart+3:] <= "59":
			t.Errorf("read(%q) after %q: %s; want %v", second, first, reason, want)
		}
	})
}
