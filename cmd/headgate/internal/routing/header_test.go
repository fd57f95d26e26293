package routing_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

func mustPattern(t testing.TB, text string) routing.Pattern {
	t.Helper()
	p, err := routing.ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pattern, yes, no string }{
		{"pro", "pro", "Pro|pr|prof| pro|"},
		{"", "", "a"},
		{"*", "|a|pro free|a*b", ""},
		{"ent-*", "ent-|ent-a|ent-a-b", "ent|Ent-a|xent-a"},
		{"*-eu", "-eu|a-eu|a-eu-eu", "eu|a-eu-"},
		{"a*b*c", "abc|axbxc|abbcc|a-b-c-b-c", "ab|ac|acb|abcd|cba"},
		{"aa*aa", "aaaa|aaxaa", "aaa|aa"},
		{"*aab*", "aaab|xaabx", "aaxb"},
	} {
		p := mustPattern(t, c.pattern)
		for text := range strings.SplitSeq(c.yes, "|") {
			if !p.Matches(text) {
				t.Errorf("%q does not match %q", c.pattern, text)
			}
		}
		for text := range strings.SplitSeq(c.no, "|") {
			if c.no != "" && p.Matches(text) {
				t.Errorf("%q matches %q", c.pattern, text)
			}
		}
	}
	for _, text := range []string{"a**b", "a\nb", strings.Repeat("x", 257), strings.Repeat("*a", 9)} {
		if _, err := routing.ParsePattern(text); err == nil {
			t.Errorf("ParsePattern(%.20q): got no error", text)
		}
	}
}

// A naive implementation of patterns agrees on all short texts.
func TestPatternsMatchNaiveImplementation(t *testing.T) {
	t.Parallel()
	texts := []string{""}
	for at := 0; at < len(texts) && len(texts[at]) < 6; at++ {
		texts = append(texts, texts[at]+"a", texts[at]+"b")
	}
	patterns := []string{""}
	for at := 0; at < len(patterns) && len(patterns[at]) < 5; at++ {
		patterns = append(patterns, patterns[at]+"a", patterns[at]+"b", patterns[at]+"*")
	}
	checked := 0
	for _, text := range patterns {
		p, err := routing.ParsePattern(text)
		if err != nil {
			continue // two stars in a row
		}
		for _, s := range texts {
			checked++
			if got, want := p.Matches(s), naiveMatch(text, s); got != want {
				t.Fatalf("%q matches %q: got %v want %v", text, s, got, want)
			}
		}
	}
	if checked < 10_000 {
		t.Errorf("%d cases checked, want at least 10000", checked)
	}
}

func naiveMatch(pattern, text string) bool {
	if pattern == "" {
		return text == ""
	}
	if pattern[0] == '*' {
		return naiveMatch(pattern[1:], text) || text != "" && naiveMatch(pattern, text[1:])
	}
	return text != "" && text[0] == pattern[0] && naiveMatch(pattern[1:], text[1:])
}

// withHeader returns a route for all requests with a header field.
func withHeader(t testing.TB, name, value string, policies ...string) routing.Route {
	t.Helper()
	r := route(t, "- - /api/**", policies...)
	r.Headers = []routing.HeaderMatch{{Name: name, Value: mustPattern(t, value)}}
	return r
}

func TestRoutesMatchHeaders(t *testing.T) {
	t.Parallel()
	both := withHeader(t, "X-Plan", "pro", "pro-eu")
	both.Headers = append(both.Headers, routing.HeaderMatch{Name: "X-Region", Value: mustPattern(t, "eu-*")})
	table := routing.NewTable([]routing.Route{
		both, withHeader(t, "X-Plan", "pro", "pro"), withHeader(t, "X-Plan", "ent-*", "enterprise"), withHeader(t, "X-Plan", "*", "free"),
		route(t, "- - /api/**", "anonymous"),
	}, nil)
	for _, c := range []struct {
		header http.Header
		want   int
	}{
		{nil, 4},
		{http.Header{"X-Plan": {"pro"}}, 1},
		{http.Header{"X-Plan": {"pro"}, "X-Region": {"eu-1"}}, 0},
		{http.Header{"X-Plan": {"pro"}, "X-Region": {"us-1"}}, 1},
		{http.Header{"X-Plan": {"ent-9"}}, 2},
		{http.Header{"X-Plan": {"Pro"}}, 3},
		{http.Header{"X-Plan": {""}}, 3},
		{http.Header{"X-Plan": {"free, pro"}}, 3},
		{http.Header{"X-Plan": {}}, 4},
		{http.Header{"X-Region": {"eu-1"}}, 4},
	} {
		r := &routing.Request{Path: "/api/x", Header: c.header}
		if got := firstRoute(table, r); got != c.want {
			t.Errorf("%v: got route %d want %d", c.header, got, c.want)
		}
	}
}

// A request has one value of each header field that selects its route or its key.
func TestFieldsWithSeveralValues(t *testing.T) {
	t.Parallel()
	table := routing.NewTable([]routing.Route{withHeader(t, "X-Plan", "pro-*", "pro"), route(t, "- - /api/**", "free", "ip")},
		map[string]routing.Key{"pro": mustKey(t, "ip, header:X-Account+path"), "free": mustKey(t, "header:X-Free"), "bots": mustKey(t, "header:User-Agent+ip")},
		"X-Plan", "X-Account", "User-Agent")
	for _, c := range []struct {
		policy string
		header http.Header
		want   string // the field and the reason
	}{
		{"", http.Header{"X-Plan": {"pro-1"}, "X-Account": {"a"}}, ""},
		{"", http.Header{"X-Plan": {"pro-1", "pro-1"}}, "X-Plan is repeated; configure the proxy"},
		{"", http.Header{"X-Plan": {"", "pro-1"}}, "X-Plan is repeated"},
		{"", http.Header{"X-Plan": {"free,pro-1"}}, "X-Plan has a comma"},
		{"", http.Header{"X-Plan": {","}}, "X-Plan has a comma"},
		{"", http.Header{"X-Plan": {"pro-1"}, "X-Account": {"a", "b"}}, "X-Account is repeated; configure the proxy"},
		{"", http.Header{"X-Plan": {"pro-1"}, "X-Account": {"a, b"}}, "X-Account has a comma"},
		{"", http.Header{"X-Plan": {"free"}, "X-Account": {"a", "b"}}, ""},
		{"", http.Header{"X-Free": {"a, b"}, "X-Other": {"a", "b"}}, ""},
		{"", http.Header{"X-Free": {"a", "b"}}, "X-Free is repeated; send it once"},
		{"pro", http.Header{"X-Account": {"a", "b"}}, "X-Account is repeated"},
		{"pro", http.Header{"X-Plan": {"a", "b"}, "X-Free": {"a", "b"}}, ""},
		{"ip", http.Header{"X-Account": {"a", "b"}}, ""},
		{"bots", http.Header{"User-Agent": {"Mozilla/5.0 (KHTML, like Gecko)"}}, ""},
		{"bots", http.Header{"User-Agent": {"a", "b"}}, "User-Agent is repeated; configure the proxy"},
	} {
		charges, err := table.Select([]routing.PolicyKey{{Policy: "before"}}, c.policy, &routing.Request{Path: "/api/x", Header: c.header})
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(got, c.want) {
			t.Errorf("%q %v: got error %v want %q", c.policy, c.header, err, c.want)
		}
		if (len(charges) == 1) != (err != nil) {
			t.Errorf("%q %v: got %v with error %v", c.policy, c.header, charges, err)
		}
	}
}

func TestUnreachableRoutesWithHeaders(t *testing.T) {
	t.Parallel()
	all := route(t, "- - /api/**")
	pro, ent, enterprise, any := withHeader(t, "X-Plan", "pro"), withHeader(t, "X-Plan", "ent-*"), withHeader(t, "X-Plan", "ent-9"), withHeader(t, "X-Plan", "*")
	region := withHeader(t, "X-Region", "*")
	for _, c := range []struct {
		name   string
		routes []routing.Route
		want   bool // whether the last route is unreachable
	}{
		{"a plan after all requests", []routing.Route{all, pro}, true},
		{"all requests after a plan", []routing.Route{pro, all}, false},
		{"an exact value after its pattern", []routing.Route{ent, enterprise}, true},
		{"a pattern after one of its values", []routing.Route{enterprise, ent}, false},
		{"a plan after the field", []routing.Route{any, pro}, true},
		{"the field after a plan", []routing.Route{pro, any}, false},
		{"another field", []routing.Route{region, pro}, false},
		{"the same", []routing.Route{pro, pro}, true},
	} {
		if got := len(routing.UnreachableRoutes(c.routes)) > 0; got != c.want {
			t.Errorf("%s: got unreachable %v want %v", c.name, got, c.want)
		}
	}
}

func TestParseHeaderName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"x-plan": "X-Plan", "X-Plan": "X-Plan", "X Plan": "", "": "", "Host": "", "x-forwarded-for": "", "X-Plan:": "", "ü": "",
	} {
		if got, err := routing.ParseHeaderName(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, error %v want %q", text, got, err, want)
		}
	}
}

func TestTrustedHeadersInKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key           string
		trusted       string
		prefers, uses bool
	}{
		{"ip", "", false, false},
		{"header:X-User, ip", "", true, true},
		{"header:X-User, ip", "X-User", false, false},
		{"ip, header:X-User", "", false, true},
		{"header:X-Tenant+header:X-User, ip", "X-User", true, true},
		{"header:X-Tenant+path, header:X-User", "X-Tenant", false, true},
	} {
		k := mustKey(t, c.key)
		if k.PrefersHeader([]string{c.trusted}) != c.prefers || k.UsesHeader([]string{c.trusted}) != c.uses {
			t.Errorf("%s with %q trusted: got prefers %v, uses %v", c.key, c.trusted, !c.prefers, !c.uses)
		}
	}
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.1.2.3": "10.1.2.3 32", "2001:db8::/64": "2001:db8:: 64", "2001:db8::1": "2001:db8::1 128", "::ffff:10.1.2.3": "10.1.2.3 32",
		"10.0.0.0/8": "10.0.0.0 8", "10.1.2": "", "10.1.2.3/": "", "10.1.2.3/33": "", "10.1.2.3/a": "", "10.1.2.3/0008": "",
		"10.1.2.3/032": "", "10.0.0.0/08": "", "2001:db8::/064": "", "10.1.2.3/00": "", "acme": "",
		"fe80::1%eth0": "", "10.1.2.3+/cart": "", "header:x=10.1.2.3": "", "": "", "a.b.c": "", strings.Repeat("1.", 1000): "",
	} {
		got := ""
		if addr, bits, ok := routing.AddressOf(text); ok {
			got = netip.PrefixFrom(addr, bits).String()
			got = strings.Replace(got, "/", " ", 1)
		}
		if got != want {
			t.Errorf("%.40q: got %q want %q", text, got, want)
		}
	}
}

func TestNeverInNetwork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, network string
		never        bool
	}{
		{"ip", "10.0.0.0/8", false},
		{"ip", "2001:db8::/64", false},
		{"ip", "2001:db8::/65", true},
		{"ip/128", "2001:db8::/65", false},
		{"header:X-User, ip", "10.0.0.0/8", false},
		{"ip+path", "10.0.0.0/8", true},
		{"header:X-Zip", "10.0.0.0/8", true},
	} {
		if why := mustKey(t, c.key).NeverInNetwork(netip.MustParsePrefix(c.network)); (why != "") != c.never {
			t.Errorf("%s in %s: got %q want never %v", c.key, c.network, why, c.never)
		}
	}
}
