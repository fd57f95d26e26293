//go:build !race

package language

import (
	"regexp"
	"strings"
	"testing"
)

// phrase is a wording that is not used, and what is written instead.
type phrase struct {
	match *regexp.Regexp
	use   string
}

// banned lists the phrases. Each is a regular expression for whole words in any case, and has
// an example that it finds.
var banned = []phrase{
	ban(`doors?`, "listener (socket), endpoint or API (protocol)"),
	ban(`(give|gives|gave|given|giving)( \w+){0,2} back`, "refund"),
	ban(`(let|lets|letting) (\w+ )?pass|wave[sd]? through`, "allow"),
	ban(`who asks|askers?`, "client, caller"),
	ban(`away`, "unavailable"),
	ban(`as if (it was |it were )?never used`, "full (bucket), empty (window), unused"),
	ban(`in debt`, "partly spent, over-spent"),
	ban(`lives|is alive|a life`, "TTL, expires, exists"),
	ban(`troubles?`, "error, reason"),
	ban(`only watch(es|ed)?|(are|is|be) watched`, "shadow mode"),
	ban(`believe[sd]?`, "trust, trusted"),
	ban(`tells?|told|telling`, "report, return, log, document"),
	ban(`says?|said|saying`, "report, return, log, document"),
	ban(`hears?( of)?|heard`, "receive"),
	ban(`stands? (in|for|here|alone|behind|between|beside|before|there)`, "is in, replaces, is listed"),
	ban(`lies? (in|under|there|beside|between|behind)`, "is in, is stored in"),
	ban(`in force`, "effective, active"),
	ban(`what holds|holds? (while|for as long)`, "failure mode; applies"),
	ban(`beside`, "in addition to, compared with, next to"),
	ban(`at once`, "immediately, simultaneously or atomically"),
	ban(`anew`, "again"),
	ban(`by itself|of itself|by themselves`, "automatically, alone"),
	ban(`by chance`, "randomly"),
	ban(`incumbent`, "envoyproxy/ratelimit"),
	ban(`aboard|take[s]? off|touch(es)? down`, "batched, send, complete"),
	ban(`patience`, "max delay"),
	ban(`awaken(s|ed)?|rouse[sd]?`, "wake, notify"),
	ban(`whoever|whomever`, "a client that, callers that"),
	ban(`nobody|somebody|everybody|anybody`, "no client, a client, every client"),
	ban(`those (who|that|which)`, "repeat the noun"),
	ban(`(he|him|his|she|her)`, "they, the client, the user"),
	ban(`accepted are`, "must be"),
	ban(`there is no such|there are no such`, "unknown"),
	ban(`for ever`, "without a TTL, forever"),
	ban(`so already`, "already"),
	ban(`of (its|our|this program's) (own )?making`, "written by Headgate"),
	ban(`mend(s|ed|ing)?`, "fix, correct"),
	ban(`what ails`, "the error of"),
	ban(`sort of`, "kind of"),
	ban(`in what time`, "latency"),
	ban(`may come in|comes? in any more`, "connect"),
	ban(`in the air|in the line before`, "in flight, queued"),
	ban(`newcomers?`, "new keys"),
	ban(`(the|another|same|its|whose) begins?`, "start"),
}

func ban(expression, use string) phrase {
	return phrase{regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(expression, " ", `\s+`) + `)\b`), use}
}

// TestBannedPhrasesAreFound checks the rules themselves.
func TestBannedPhrasesAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"The door closes.":                         true,
		"It gives the units back.":                 true,
		"The store is\naway.":                      true,
		"The begin of a window.":                   true,
		"The windows begin. The start of one":      false,
		"A refund returns units.":                  false,
		"The outdoor sensor, the theme, the chest": false,
	} {
		if got := len(checkText("x", 1, text)) > 0; got != want {
			t.Errorf("%q: got a finding: %v, want %v", text, got, want)
		}
	}
	const md = "Text.\n```\nthe door\n```\nA `door` here, a door there."
	if got := checkLines("x.md", withoutCode(md), 0); len(got) != 1 || got[0].place != "x.md:5" {
		t.Errorf("Markdown: got %v, want one finding in line 5", got)
	}
	const code = "package x\n\nvar s = \"a door\" // the door\n\ntype t struct {\n\tA int `door:\"a b\"`\n}\n"
	if got := checkGo("x.go", []byte(code)); len(got) != 2 {
		t.Errorf("Go: got %v, want a finding in the string and one in the comment", got)
	}
}
