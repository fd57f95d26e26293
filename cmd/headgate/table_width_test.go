package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// failure is the text of a failed check, which is not wrapped.
const failure = "dial tcp 127.0.0.1:1: connect: connection refused, and many words that follow the reason of the failure"

// TestTablesFitTerminal: no line of a table is longer than 80 columns, also with the
// longest names, except the text of a failure. Nothing of the names and numbers is lost.
func TestTablesFitTerminal(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a-very-long-name.", 20)
	for name, c := range map[string]struct {
		print func(*strings.Builder) error
		whole []string // texts that the output contains, apart from spaces and line breaks
	}{
		"store check": {
			func(b *strings.Builder) error {
				return listFindings(b, []storeopen.Finding{
					{Level: storeopen.Warning, Check: "connection", Says: "the server at " + long + " answers after 1234567 ms", Advice: "use " + long + " instead"},
					{Level: storeopen.Failing, Check: "persistence", Says: failure},
				}, false)
			},
			[]string{long, "1234567 ms", "→ use", failure},
		},
		"explain": {
			func(b *strings.Builder) error {
				e := explanation{
					Client: "2001:db8:1111:2222:3333:4444:5555:6666", Routes: []explainedRoute{{12345, "host " + long}}, Store: "memory",
					DeniedBy: []string{long + ":1000000000/366d", "b:5/s"}, RetryAfter: (36525 * 24 * time.Hour).Milliseconds(),
					Policies: []explainedPolicy{{
						Policy: long, Algorithm: "token_bucket_interval", KeyBy: "header:x-" + long, Key: long, Override: true,
						Limits: []explainedLimit{{"1000000000/366d burst 1000000000", 1e9, 1e9, (36525 * 24 * time.Hour).Milliseconds(), &explainedLease{
							Units: 5e8, Share: 50, TTL: 59_999, MinCalls: 200, MaxCalls: 12_800,
						}}},
					}},
				}
				return e.print(b, &routing.Request{Method: "GET", Host: long, Path: "/" + long})
			},
			[]string{long + ", token_bucket_interval", `"a-very`, "1000000000 of 1000000000 left", "876600h0m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			if err := c.print(&b); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 80 && !strings.HasSuffix(line, failure+"\n") {
					t.Errorf("%d columns: %s", width, line)
				}
			}
			joined := strings.NewReplacer("\n", "", " ", "")
			for _, text := range c.whole {
				if !strings.Contains(joined.Replace(b.String()), joined.Replace(text)) {
					t.Errorf("%q is not in:\n%s", text, b.String())
				}
			}
		})
	}
}

// TestExplainKeepsSpacesOfKey: wrapping does not change the key.
func TestExplainKeepsSpacesOfKey(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	e := explanation{Policies: []explainedPolicy{{Policy: "p", Key: "two  spaces", KeyBy: "ip"}}}
	if err := e.print(&b, nil); err != nil || !strings.Contains(b.String(), `"two  spaces"`) {
		t.Errorf("got %s, error %v", b.String(), err)
	}
}

// TestFindingsOnTerminal: levels have colours on a terminal, unless NO_COLOR is set. The
// program “script” gives the command a terminal.
func TestFindingsOnTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ environment, want string }{
		{"TERM=xterm NO_COLOR=", "\x1b[32mok\x1b[0m       memory"}, {"TERM=xterm NO_COLOR=1", "ok       memory"}, {"TERM=dumb NO_COLOR=", "ok       memory"},
	} {
		out, err := exec.Command("script", "-qec", "env "+c.environment+" headgate store check memory://", "/dev/null").Output()
		if err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%s: got %q, want %q first: %v", c.environment, out, c.want, err)
		}
	}
}
