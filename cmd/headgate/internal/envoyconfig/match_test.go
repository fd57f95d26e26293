package envoyconfig_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

func entries(text string) (all []envoyconfig.Entry) {
	for _, w := range strings.Fields(text) {
		k, v, _ := strings.Cut(w, "=")
		all = append(all, envoyconfig.Entry{Key: k, Value: v})
	}
	return all
}

const statConfig = `
domain: d
descriptors:
  - key: plain
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: exact
    value: v
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: detailed
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: metric
    value_to_metric: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: wild
    value: a*
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: wildmetric
    value: a*
    value_to_metric: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: shared
    value: a*
    value_to_metric: true
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: shareddetail
    value: a*
    detailed_metric: true
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: route
    value_to_metric: true
    descriptors:
      - key: method
        rate_limit: {unit: day, requests_per_unit: 1}
        descriptors:
          - key: deep
            detailed_metric: true
            rate_limit: {unit: day, requests_per_unit: 1}
  - key: top
    descriptors:
      - key: inner
        value_to_metric: true
        rate_limit: {unit: day, requests_per_unit: 1}
`

func TestAppendStat(t *testing.T) {
	t.Parallel()
	config := mustParse(t, statConfig)
	for _, c := range []struct{ entries, want string }{
		{"plain=x", "d.plain"},
		{"exact=v", "d.exact_v"},
		{"detailed=x", "d.detailed_x"},
		{"detailed=", "d.detailed_"},
		{"metric=x", "d.metric_x"},
		{"metric=", "d.metric"},
		{"wild=abc", "d.wild_a*"},
		{"wildmetric=abc", "d.wildmetric_abc"},
		{"shared=abc", "d.shared_a*"},
		{"shareddetail=abc", "d.shareddetail_a*"},
		{"route=r method=m", "d.route_r.method"},
		{"route=r method=m deep=x", "d.route_r.method_m.deep_x"},
		{"top=t inner=i", "d.top.inner_i"},
	} {
		var m envoyconfig.Matcher
		r := m.Match(config.Domain("d"), entries(c.entries))
		if r == nil {
			t.Errorf("%s: no rule", c.entries)
			continue
		}
		if got := string(m.AppendStat(nil, r)); got != c.want {
			t.Errorf("%s: got %s want %s", c.entries, got, c.want)
		}
	}
	if got := string(envoyconfig.AppendPath(nil, "d", entries("a=b c= d=e"))); got != "d.a_b.c.d_e" {
		t.Errorf("a limit in the request: got %s", got)
	}
}

func TestMatchAllocations(t *testing.T) {
	config := mustParse(t, statConfig+`
  - key: many
    value: "x*"
  - key: many
    value: "y*z"
    rate_limit: {unit: day, requests_per_unit: 1}
`)
	var m envoyconfig.Matcher
	request := [][]envoyconfig.Entry{entries("route=r method=m deep=x"), entries("many=y-and-z"), entries("nothing=here")}
	if n := testing.AllocsPerRun(1000, func() {
		for _, e := range request {
			m.Match(config.Domain("d"), e)
		}
	}); n != 0 {
		t.Errorf("%v allocations per match, want 0", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	config := mustParse(b, statConfig)
	var m envoyconfig.Matcher
	request := entries("route=r method=m deep=x")
	b.ReportAllocs()
	for b.Loop() {
		if m.Match(config.Domain("d"), request) == nil {
			b.Fatal("no rule")
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	config := mustParse(t, limitsConfig)
	want := []struct {
		limit  headgate.Limit
		alg    headgate.Algorithm
		mode   headgate.OnStoreError
		scope  string
		shadow bool
	}{
		{headgate.Limit{Rate: 16, Period: time.Minute}, headgate.FixedWindow, headgate.FailOpen, "envoy:minute", false},
		{headgate.Limit{Rate: 8, Period: 24 * time.Hour}, headgate.SlidingWindow, "", "envoy:day", false},
		{headgate.Limit{Rate: 1000, Period: 12 * time.Hour}, headgate.TokenBucket, "", "envoy:0:12h0m0s", false},
		{headgate.Limit{Rate: 5, Period: 15 * time.Minute, Burst: 20}, headgate.TokenBucket, headgate.FailLocal, "envoy:0:15m0s", false},
		{headgate.Limit{Rate: 9, Period: 15 * time.Minute}, headgate.TokenBucket, headgate.FailLocal, "envoy:1:15m0s", false},
		{headgate.Limit{Rate: 3, Period: 15 * time.Minute}, headgate.TokenBucket, "", "envoy:0:15m0s", false},
		{headgate.Limit{Rate: 4, Period: 15 * time.Minute}, headgate.TokenBucket, "", "envoy:0:15m0s", false},
		{headgate.Limit{Rate: 6, Period: 15 * time.Minute}, headgate.TokenBucket, "", "envoy:0:15m0s", false},
		{headgate.Limit{Rate: 7, Period: 7 * 24 * time.Hour}, headgate.FixedWindow, "", "envoy:week", true},
	}
	i := 0
	for _, r := range config.Rules() {
		for _, l := range r.Limits {
			w := want[i]
			i++
			if l.Inline.Limit != w.limit || l.Inline.Algorithm != w.alg || l.Inline.OnStoreError != w.mode || l.Inline.Scope != w.scope || r.Shadow != w.shadow || r.Quota != w.shadow {
				t.Errorf("%s: got %+v, shadow %v, quota %v want %+v", r.Path, *l.Inline, r.Shadow, r.Quota, w)
			}
		}
	}
	if i != len(want) {
		t.Errorf("got %d limits, want %d", i, len(want))
	}
}

// Numbers and booleans of YAML 1.1, as envoyproxy/ratelimit reads them.
const limitsConfig = `
domain: d
descriptors:
  - key: k
    rate_limit: {unit: mInUtE, requests_per_unit: 0x10, on_store_error: open}
  - key: octal
    rate_limit: {unit: day, requests_per_unit: 010, algorithm: sliding_window}
  - key: long
    rate_limit: {unit: hour, requests_per_unit: 1_000, unit_multiplier: 12, algorithm: gcra}
  - key: list
    rate_limit: {limits: ["5/15m burst 20", "9/15m"], on_store_error: local}
  - key: scalar
    rate_limit: {limits: 3/15m}
  - key: alias
    rate_limit: {limit: 4/15m}
  - key: aliaslist
    rate_limit: {limit: [6/15m]}
  - key: yes
    value: 2026-01-01
    shadow_mode: on
    quota_mode: y
    rate_limit: &weekly {unit: week, requests_per_unit: 7}
  - key: white
    rate_limit:
      <<: {name: merged, unlimited: no}
      unlimited: yes
`

func TestMergeKeysAndDuplicates(t *testing.T) {
	t.Parallel()
	config := mustParse(t, limitsConfig)
	last := config.Rules()[len(config.Rules())-1]
	if !last.Unlimited || last.Name != "merged" {
		t.Errorf("got %+v, want the explicit value to override the merged one", last)
	}
	var m envoyconfig.Matcher
	if m.Match(config.Domain("d"), entries("yes=2026-01-01")) == nil {
		t.Error("a key and a value that look like a boolean and a date must stay strings")
	}
	twice := mustParse(t, "domain: a\ndomain: b\n")
	if twice.Domain("b") == nil || twice.Domain("a") != nil {
		t.Error("the last value of a duplicate key must count")
	}
}

// FuzzPattern compares patterns with regular expressions.
func FuzzPattern(f *testing.F) {
	f.Add("a*b", "a--b")
	f.Add("*", "")
	f.Add("**a*", "bab")
	f.Fuzz(func(t *testing.T, value, request string) {
		if strings.ContainsAny(value, "\x00") || len(value)+len(request) > 200 || value == "" || !strings.Contains(value, "*") {
			return
		}
		quoted := strings.ReplaceAll(regexp.QuoteMeta(value), `\*`, `(?s:.*)`)
		expr, err := regexp.Compile(`^` + quoted + `$`)
		if err != nil {
			return
		}
		want := expr.MatchString(request)
		if got := envoyconfig.Glob(value, []byte(request)); got != want {
			t.Errorf("%q against %q: got %v want %v", value, request, got, want)
		}
	})
}

// FuzzParse checks that no text causes a panic or an unusable configuration.
func FuzzParse(f *testing.F) {
	headers, contents := sections(f, "testdata/errors.txt")
	for i := range headers {
		f.Add([]byte(contents[i]), "a=b c=d")
	}
	f.Add([]byte(statConfig), "route=r method=m deep=x")
	f.Add([]byte(limitsConfig), "k=v")
	f.Fuzz(func(t *testing.T, text []byte, request string) {
		config, err := envoyconfig.Parse([]envoyconfig.File{{Name: "f.yaml", Content: text}}, nil)
		if err != nil {
			_ = err.Error()
			return
		}
		for _, r := range config.Rules() {
			for _, l := range r.Limits {
				if l.Inline != nil && l.Inline.Limit.Validate() != nil {
					t.Errorf("%s: limit %+v is accepted", r.Path, l.Inline.Limit)
				}
			}
		}
		var m envoyconfig.Matcher
		for _, name := range []string{"d", "test-domain"} {
			if d := config.Domain(name); d != nil {
				if r := m.Match(d, entries(request)); r != nil {
					m.AppendStat(nil, r)
				}
			}
		}
	})
}
