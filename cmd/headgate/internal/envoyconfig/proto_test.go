package envoyconfig_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// resource is a resource of its JSON.
func resource(t testing.TB, text string) *ratelimit.RateLimitConfig {
	t.Helper()
	r := new(ratelimit.RateLimitConfig)
	if err := protojson.Unmarshal([]byte(text), r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// What a resource says means what the same file means: rules, limits, metadata, the way to them and warnings.
func TestResourcesMeanWhatFilesMean(t *testing.T) {
	t.Parallel()
	r := resource(t, `{"name": "test.yaml", "domain": "d", "descriptors": [
		{"key": "a", "value": "x*", "shadowMode": true, "rateLimit": {"unit": "WEEK", "requestsPerUnit": 7, "name": "first"},
		 "descriptors": [{"key": "below", "quotaMode": true, "detailedMetric": true, "rateLimit": {"unit": 5, "requestsPerUnit": 4294967295}}]},
		{"key": "a", "value": "xy*", "rateLimit": {"unit": "SECOND"}},
		{"key": "free", "rateLimit": {"unlimited": true, "replaces": [{"name": "first"}, {"name": "nobody"}]},
		 "metadata": {"f": 1.5, "whole": 3, "s": "t", "b": true, "none": null, "l": [1, {"in": []}], "o": {"p": {}}}},
		{"key": "path", "quotaMode": true}
	]}`)
	got, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{r}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := mustParse(t, `
domain: d
descriptors:
  - key: a
    value: x*
    shadow_mode: true
    rate_limit: {unit: week, requests_per_unit: 7, name: first}
    descriptors:
      - {key: below, quota_mode: true, detailed_metric: true, rate_limit: {unit: month, requests_per_unit: 4294967295}}
  - {key: a, value: xy*, rate_limit: {unit: second, requests_per_unit: 0}}
  - key: free
    rate_limit: {unlimited: true, replaces: [{name: first}, {name: nobody}]}
    metadata: {f: 1.5, whole: 3, s: t, b: true, none: null, l: [1, {in: []}], o: {p: {}}}
  - {key: path, quota_mode: true}
`)
	if len(got.Rules()) != 4 || len(want.Rules()) != 4 {
		t.Fatalf("%d and %d rules, want 4", len(got.Rules()), len(want.Rules()))
	}
	for i, rule := range got.Rules() {
		one, other := *rule, *want.Rules()[i]
		if !proto.Equal(one.Metadata, other.Metadata) {
			t.Errorf("%s: metadata %v, want %v", rule.Path, one.Metadata, other.Metadata)
		}
		one.Metadata, other.Metadata = nil, nil
		if !reflect.DeepEqual(one, other) {
			t.Errorf("got %+v, want %+v", one, other)
		}
	}
	messages := func(c *envoyconfig.Config) (all []string) {
		for _, w := range c.Warnings() {
			all = append(all, w.Message)
		}
		return all
	}
	if g, w := messages(got), messages(want); !slices.Equal(g, w) || len(w) != 4 {
		t.Errorf("warnings\n got %q\nwant %q", g, w)
	}
	var m envoyconfig.Matcher
	if rule := m.Match(got.Domain("d"), entries("a=x1 below=z")); rule == nil || rule.Path != "d.a_x*.below" || rule.Limits[0].Unit != envoyconfig.Month {
		t.Errorf("a=x1 below=z: got %+v, want the rule below", rule)
	}
}

// The errors are envoyproxy/ratelimit's, and call a resource by its name.
func TestErrorsOfResources(t *testing.T) {
	t.Parallel()
	deep := `{"key": "k"}`
	for range 60 {
		deep = `{"key": "k", "descriptors": [` + deep + `]}`
	}
	limit := func(text string) string {
		return `{"name": "r", "domain": "d", "descriptors": [{"key": "k", "rateLimit": ` + text + `}]}`
	}
	for _, c := range []struct{ resource, want string }{
		{`{"name": "r"}`, "r: config file cannot have empty domain"},
		{`{"descriptors": []}`, "resource without a name: config file cannot have empty domain"},
		{`{"name": "r", "domain": "d", "descriptors": [{}]}`, "r: descriptor has empty key"},
		{`{"name": "r", "domain": "d", "descriptors": [{"key": "a", "value": "b_c"}, {"key": "a_b", "value": "c"}]}`, "r: duplicate descriptor composite key 'd.a_b_c'"},
		{limit(`{}`), "r: invalid rate limit unit 'UNKNOWN'"},
		{limit(`{"unit": "UNKNOWN", "requestsPerUnit": 1}`), "r: invalid rate limit unit 'UNKNOWN'"},
		{limit(`{"unit": 8, "requestsPerUnit": 1}`), "r: invalid rate limit unit '8'"},
		{limit(`{"unit": -1, "requestsPerUnit": 1}`), "r: invalid rate limit unit '-1'"},
		{limit(`{"unit": "DAY", "unlimited": true}`), "r: should not specify rate limit unit when unlimited"},
		{limit(`{"unit": "DAY", "replaces": [{}]}`), "r: should not have an empty replaces entry"},
		{limit(`{"unit": "DAY", "name": "n", "replaces": [{"name": "n"}]}`), "r: replaces should not contain name of same descriptor"},
		{`{"name": "r", "domain": "d", "descriptors": [` + deep + `]}`, "r: error loading config file: exceeded max depth"},
		{`{"name": "` + strings.Repeat("n", 10_000) + `"}`, strings.Repeat("n", 60) + "…: config file cannot have empty domain"},
	} {
		got, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{resource(t, c.resource)}, nil)
		if got != nil || !errors.Is(err, envoyconfig.ErrInvalid) || err.Error() != c.want {
			t.Errorf("%.200s:\n got %v\nwant %s", c.resource, err, c.want)
		}
	}
}

// Resources count in the order of their names, and share a domain only if domains are merged.
func TestSeveralResources(t *testing.T) {
	t.Parallel()
	a := resource(t, `{"name": "a", "domain": "d", "descriptors": [{"key": "k", "value": "a*", "rateLimit": {"unit": "DAY", "requestsPerUnit": 1}}]}`)
	b := resource(t, `{"name": "b", "domain": "d", "descriptors": [{"key": "k", "value": "*", "rateLimit": {"unit": "DAY", "requestsPerUnit": 2}}]}`)
	for _, all := range [][]*ratelimit.RateLimitConfig{{a, b}, {b, a}} {
		before := slices.Clone(all)
		if _, err := envoyconfig.ParseResources(all, nil); fmt.Sprint(err) != "b: duplicate domain 'd' in config file" {
			t.Errorf("got %v, want an error of the second", err)
		}
		c, err := envoyconfig.ParseResources(all, &envoyconfig.ParseOptions{MergeDomains: true})
		if err != nil {
			t.Fatal(err)
		}
		var m envoyconfig.Matcher
		if rule := m.Match(c.Domain("d"), entries("k=abc")); rule == nil || rule.Limits[0].Requests != 1 {
			t.Errorf("got %+v, want the rule of the first by name", rule)
		}
		if !slices.Equal(all, before) {
			t.Error("what was given was put into another order")
		}
	}
	same := resource(t, `{"name": "c", "domain": "d", "descriptors": [{"key": "k", "value": "*"}]}`)
	_, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{same, a, b}, &envoyconfig.ParseOptions{MergeDomains: true})
	if got, want := fmt.Sprint(err), "c: duplicate descriptor composite key 'd.k_*'"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if c, err := envoyconfig.ParseResources(nil, nil); err != nil || c.Domains() != 0 {
		t.Errorf("nothing at all: got %v, error %v, want a configuration without domains", c, err)
	}
}

// What is more than accepted is refused, and what no sender of good will makes does no harm.
func TestBoundsOnResources(t *testing.T) {
	t.Parallel()
	many := make([]*ratelimit.RateLimitConfig, envoyconfig.MaxResources+1)
	wide := &ratelimit.RateLimitConfig{Name: "wide", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Key: "k", RateLimit: &ratelimit.RateLimitPolicy{Replaces: make([]*ratelimit.RateLimitReplace, 500_001)}},
	}}
	odd := &ratelimit.RateLimitConfig{Name: "odd", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{nil}}
	for i := range many {
		many[i] = &ratelimit.RateLimitConfig{Name: fmt.Sprint(i), Domain: fmt.Sprint(i)}
	}
	for want, all := range map[string][]*ratelimit.RateLimitConfig{
		"the configuration: there are 10001 resources; accepted are at most 10000": many,
		"wide: error loading config file: it holds more than 500000 values":        {wide},
		"odd: descriptor has empty key":                                            {odd},
		"resource without a name: config file cannot have empty domain":            {nil},
	} {
		if _, err := envoyconfig.ParseResources(all, nil); !errors.Is(err, envoyconfig.ErrInvalid) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := envoyconfig.ParseResources(many[1:], nil); err != nil {
		t.Errorf("as many as accepted: %v", err)
	}
	// numbers that JSON does not have
	inf, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{{Name: "r", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Key: "k", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"inf": structpb.NewNumberValue(math.Inf(-1)), "odd": nil}},
	}}}}, nil)
	if err != nil || inf.Rules()[0].Metadata.GetFields()["inf"].GetNumberValue() != math.Inf(-1) {
		t.Errorf("got %v, error %v", inf, err)
	}
}

// Metadata is as deep as accepted, whatever it is made of, and warnings are not more.
func TestMoreBoundsOnResources(t *testing.T) {
	t.Parallel()
	lists, structs := structpb.NewBoolValue(true), structpb.NewBoolValue(true)
	for range 100 {
		lists = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{lists}})
		structs = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"s": structs}})
	}
	for name, deep := range map[string]*structpb.Value{"lists": lists, "structs": structs} {
		rule := &ratelimit.RateLimitDescriptor{
			Key: "k", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY}, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"m": deep}},
		}
		all := []*ratelimit.RateLimitConfig{{Name: "r", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{rule}}}
		if _, err := envoyconfig.ParseResources(all, nil); fmt.Sprint(err) != "r: error loading config file: exceeded max depth" {
			t.Errorf("%s: got %v, want an error", name, err)
		}
	}
	odd := &ratelimit.RateLimitConfig{Name: "odd", Domain: "odd"}
	for i := range 1500 {
		odd.Descriptors = append(odd.Descriptors, &ratelimit.RateLimitDescriptor{Key: fmt.Sprint(i), QuotaMode: true})
	}
	replaces := below("k", 1, func(int) string { return "one" })
	for i := range 1500 {
		rule := replaces.GetDescriptors()[0].GetDescriptors()[0].GetRateLimit()
		rule.Replaces = append(rule.Replaces, &ratelimit.RateLimitReplace{Name: fmt.Sprint(i)})
	}
	c, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{odd, replaces}, nil)
	if err != nil || len(c.Warnings()) != 2000 {
		t.Errorf("got %d warnings, error %v, want 1000 of the file and 1000 of replaces", len(c.Warnings()), err)
	}
}

// below is a resource of n rules below a key.
func below(key string, n int, name func(i int) string) *ratelimit.RateLimitConfig {
	top := &ratelimit.RateLimitDescriptor{Key: key}
	for i := range n {
		rule := &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY, RequestsPerUnit: 1}
		top.Descriptors = append(top.Descriptors, &ratelimit.RateLimitDescriptor{Key: name(i), RateLimit: rule})
	}
	return &ratelimit.RateLimitConfig{Name: "r", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{top}}
}

// A small message does not make large rules.
func TestWhatResourcesCost(t *testing.T) { //nolint:paralleltest // it is what allocates
	nothing := &ratelimit.RateLimitConfig{Name: "r", Domain: "d"}
	for range 100_000 {
		nothing.Descriptors = append(nothing.Descriptors, new(ratelimit.RateLimitDescriptor))
	}
	number := func(prefix string) func(int) string { return func(i int) string { return fmt.Sprint(prefix, i, "x") } }
	for name, c := range map[string]struct {
		from     *ratelimit.RateLimitConfig
		want     string // error
		mostMB   uint64
		mostTime time.Duration
	}{
		"descriptors that say nothing":                     {nothing, "r: descriptor has empty key", 40, time.Minute},
		"rules that say little":                            {below("k", 50_000, number("k")), "", 100, time.Minute},
		"rules below a key that is long":                   {below(strings.Repeat("k", 40_000), 20_000, number("k")), "r: the names of all rules, domain.key_value.key, have more than 67108864 bytes", 200, time.Minute},
		"patterns that have to be held against each other": {below("k", 20_000, number(strings.Repeat("*aab", 10))), "", 100, time.Minute},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		got, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{c.from}, nil)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		if (err != nil || c.want != "") && fmt.Sprint(err) != c.want {
			t.Errorf("%s: got %v, error %.200v, want %s", name, got, err, c.want)
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > c.mostMB || took > c.mostTime {
			t.Errorf("%s: %d MB and %v, want at most %d and %v", name, mb, took, c.mostMB, c.mostTime)
		}
	}
}

// A resource of any bytes is refused or becomes a configuration, and nothing else.
func FuzzParseResources(f *testing.F) {
	seed, err := proto.Marshal(&ratelimit.RateLimitConfig{Name: "r", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Key: "k", Value: "a*", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_WEEK, RequestsPerUnit: 3, Name: "n"}},
		{Key: "l", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"f": structpb.NewNumberValue(1)}}, RateLimit: &ratelimit.RateLimitPolicy{
			Unlimited: true, Replaces: []*ratelimit.RateLimitReplace{{Name: "n"}},
		}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, text []byte) {
		r := new(ratelimit.RateLimitConfig)
		if proto.Unmarshal(text, r) != nil {
			return
		}
		c, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{r}, nil)
		if (c == nil) == (err == nil) || err != nil && !errors.Is(err, envoyconfig.ErrInvalid) {
			t.Errorf("%v: got %v, error %v", r, c, err)
		}
	})
}
