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

// resource parses a resource from JSON.
func resource(t testing.TB, text string) *ratelimit.RateLimitConfig {
	t.Helper()
	r := new(ratelimit.RateLimitConfig)
	if err := protojson.Unmarshal([]byte(text), r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// A resource and the same configuration as a file result in equal rules, limits,
// metadata and warnings.
func TestResourcesEqualFiles(t *testing.T) {
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
	if g, w := messages(got), messages(want); !slices.Equal(g, w) || len(w) != 3 {
		t.Errorf("warnings\n got %q\nwant %q", g, w)
	}
	var m envoyconfig.Matcher
	if rule := m.Match(got.Domain("d"), entries("a=x1 below=z")); rule == nil || rule.Path != "d.a_x*.below" || rule.Limits[0].Unit != envoyconfig.Month {
		t.Errorf("a=x1 below=z: got %+v, want the rule below", rule)
	}
}

// Errors are those of envoyproxy/ratelimit and contain the resource's name.
func TestParseResourcesErrors(t *testing.T) {
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

// Resources are sorted by name and may have a common domain only if domains are merged.
func TestResourceOrderAndMerge(t *testing.T) {
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
			t.Error("ParseResources changed the order of its argument")
		}
	}
	same := resource(t, `{"name": "c", "domain": "d", "descriptors": [{"key": "k", "value": "*"}]}`)
	_, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{same, a, b}, &envoyconfig.ParseOptions{MergeDomains: true})
	if got, want := fmt.Sprint(err), "c: duplicate descriptor composite key 'd.k_*'"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if c, err := envoyconfig.ParseResources(nil, nil); err != nil || c.Domains() != 0 {
		t.Errorf("no resources: got %v, error %v, want a configuration without domains", c, err)
	}
}

// Too many resources or values are refused, and invalid messages do no harm.
func TestParseResourcesBounds(t *testing.T) {
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
		"the configuration: 10001 resources; must be at most 10000":     many,
		"wide: error loading config file: more than 500000 values":      {wide},
		"odd: descriptor has empty key":                                 {odd},
		"resource without a name: config file cannot have empty domain": {nil},
	} {
		if _, err := envoyconfig.ParseResources(all, nil); !errors.Is(err, envoyconfig.ErrInvalid) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := envoyconfig.ParseResources(many[1:], nil); err != nil {
		t.Errorf("maximum number of resources: %v", err)
	}
	// numbers that JSON cannot represent
	inf, err := envoyconfig.ParseResources([]*ratelimit.RateLimitConfig{{Name: "r", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Key: "k", RateLimit: &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"inf": structpb.NewNumberValue(math.Inf(-1)), "odd": nil}},
	}}}}, nil)
	if err != nil || inf.Rules()[0].Metadata.GetFields()["inf"].GetNumberValue() != math.Inf(-1) {
		t.Errorf("got %v, error %v", inf, err)
	}
}

// The depth of metadata and the number of warnings are bounded.
func TestParseResourcesMetadataAndWarningBounds(t *testing.T) {
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
		t.Errorf("got %d warnings, error %v, want 1000 for the file and 1000 for replaces", len(c.Warnings()), err)
	}
}

// below returns a resource with n rules below a key.
func below(key string, n int, name func(i int) string) *ratelimit.RateLimitConfig {
	top := &ratelimit.RateLimitDescriptor{Key: key}
	for i := range n {
		rule := &ratelimit.RateLimitPolicy{Unit: ratelimit.RateLimitUnit_DAY, RequestsPerUnit: 1}
		top.Descriptors = append(top.Descriptors, &ratelimit.RateLimitDescriptor{Key: name(i), RateLimit: rule})
	}
	return &ratelimit.RateLimitConfig{Name: "r", Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{top}}
}

// Small messages do not use much memory or time.
func TestParseResourcesCost(t *testing.T) { //nolint:paralleltest // it measures allocations
	nothing := &ratelimit.RateLimitConfig{Name: "r", Domain: "d"}
	for range 100_000 {
		nothing.Descriptors = append(nothing.Descriptors, new(ratelimit.RateLimitDescriptor))
	}
	number := func(prefix string) func(int) string { return func(i int) string { return fmt.Sprint(prefix, i, "x") } }
	for name, c := range map[string]struct {
		from    *ratelimit.RateLimitConfig
		want    string // error
		maxMB   uint64
		maxTime time.Duration
	}{
		"empty descriptors":              {nothing, "r: descriptor has empty key", 40, time.Minute},
		"small rules":                    {below("k", 50_000, number("k")), "", 100, time.Minute},
		"rules below a long key":         {below(strings.Repeat("k", 40_000), 20_000, number("k")), "r: the names of all rules (domain.key_value.key) have more than 67108864 bytes", 200, time.Minute},
		"patterns that must be compared": {below("k", 20_000, number(strings.Repeat("*aab", 10))), "", 100, time.Minute},
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
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > c.maxMB || took > c.maxTime {
			t.Errorf("%s: %d MB and %v, want at most %d and %v", name, mb, took, c.maxMB, c.maxTime)
		}
	}
}

// Any bytes result in a configuration or an error.
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
