package envoyconfig_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// A rule matches its entries in every order, and only all of them.
func TestMatchSet(t *testing.T) {
	t.Parallel()
	c, err := envoyconfig.Parse([]envoyconfig.File{{Name: "d.yaml", Content: []byte(`
domain: d
descriptors:
  - key: z
    value: one
    descriptors:
      - key: a
        descriptors: [{key: m, rate_limit: {name: deep, unit: hour, requests_per_unit: 1}}]
  - key: b
    rate_limit: {name: single, unit: hour, requests_per_unit: 1}
  - key: p
    descriptors: [{key: q, rate_limit: {name: first, unit: hour, requests_per_unit: 1}}]
  - key: q
    descriptors: [{key: p, rate_limit: {name: second, unit: hour, requests_per_unit: 1}}]
`)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		entries []envoyconfig.Entry
		want    string
	}{
		{nil, ""},
		{[]envoyconfig.Entry{{Key: "b", Value: "v"}}, "single"},
		{[]envoyconfig.Entry{{Key: "z", Value: "one"}, {Key: "a", Value: "v"}, {Key: "m", Value: "v"}}, "deep"},
		{[]envoyconfig.Entry{{Key: "z", Value: "two"}, {Key: "a", Value: "v"}, {Key: "m", Value: "v"}}, ""},
		{[]envoyconfig.Entry{{Key: "z", Value: "one"}, {Key: "a", Value: "v"}}, ""},
		{[]envoyconfig.Entry{{Key: "b", Value: "v"}, {Key: "a", Value: "v"}}, ""},
		{[]envoyconfig.Entry{{Key: "q", Value: "v"}, {Key: "p", Value: "v"}}, "first"},
	} {
		for range 10 {
			rand.Shuffle(len(test.entries), func(i, j int) { test.entries[i], test.entries[j] = test.entries[j], test.entries[i] })
			var m envoyconfig.Matcher
			got := ""
			if rule := m.MatchSet(c.Domain("d"), test.entries); rule != nil {
				got = rule.Name
				if again := m.Match(c.Domain("d"), test.entries); again != rule {
					t.Errorf("%v: the order of the entries matches %v", test.entries, again)
				}
			}
			if got != test.want {
				t.Errorf("%v: got rule %q want %q", test.entries, got, test.want)
			}
		}
	}
}

// The time for patterns that match every entry, in an order that no rule has, is bounded.
func TestMatchSetIsBounded(t *testing.T) {
	t.Parallel()
	config := "domain: d\ndescriptors:\n"
	indent := "  "
	for range 20 {
		config += indent + "- key: \"*\"\n" + indent + "  descriptors:\n"
		indent += "    "
	}
	config += indent + "- {key: last, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
	c, err := envoyconfig.Parse([]envoyconfig.File{{Name: "d.yaml", Content: []byte(config)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{21, 64, 65, 1000} {
		var entries []envoyconfig.Entry
		for i := range n {
			entries = append(entries, envoyconfig.Entry{Key: fmt.Sprint("k", i), Value: "v"})
		}
		var m envoyconfig.Matcher
		if rule := m.MatchSet(c.Domain("d"), entries); rule != nil {
			t.Errorf("%d entries: got rule %v, want none", n, rule)
		}
	}
}
