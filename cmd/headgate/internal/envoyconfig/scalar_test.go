package envoyconfig_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// Scalars have the values of the YAML library of envoyproxy/ratelimit, which wrote
// the table.
func TestScalars(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/scalars.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		scalar, want, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue
		}
		count++
		scalar = strings.TrimSpace(scalar)
		got := strings.Join([]string{
			ruleOf("value: "+scalar, "unit: day", func(r *envoyconfig.Rule) string {
				return strconv.Quote(strings.TrimPrefix(strings.TrimPrefix(r.Path, "d.k"), "_"))
			}),
			ruleOf("value: v", "unit: day, requests_per_unit: "+scalar, func(r *envoyconfig.Rule) string { return fmt.Sprint(r.Limits[0].Requests) }),
			ruleOf("shadow_mode: "+scalar, "unit: day", func(r *envoyconfig.Rule) string { return strconv.FormatBool(r.Shadow) }),
			ruleOf("metadata:\n      a: "+scalar, "unit: day", inMetadata),
		}, " | ")
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", scalar, got, want)
		}
	}
	if count < 160 {
		t.Errorf("%d scalars, want at least 160", count)
	}
}

// ruleOf returns the result of a function for the rule of a file, or the error of the
// file.
func ruleOf(line, limit string, of func(*envoyconfig.Rule) string) string {
	doc := "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n"
	for _, l := range strings.Split(limit, ", ") {
		doc += "      " + l + "\n"
	}
	c, err := parse("test.yaml", doc+"    "+line+"\n")
	switch {
	case err == nil:
		return of(c.Rules()[0])
	case strings.Contains(err.Error(), "yaml: unmarshal errors"):
		return "type"
	case strings.HasPrefix(err.Error(), "test.yaml: error loading config file: yaml: "):
		return "load"
	case err.Error() == "test.yaml: error checking config":
		return "check"
	}
	return err.Error()
}

func inMetadata(r *envoyconfig.Rule) string {
	switch v := r.Metadata.GetFields()["a"].GetKind().(type) {
	case *structpb.Value_StringValue:
		return strconv.Quote(v.StringValue)
	case *structpb.Value_NumberValue:
		return fmt.Sprint(v.NumberValue)
	case *structpb.Value_BoolValue:
		return fmt.Sprint(v.BoolValue)
	}
	return "<nil>"
}

// Anchors, merges and duplicate keys are read in order; a duplicate rate_limit
// extends the earlier one.
func TestMergeKeys(t *testing.T) {
	t.Parallel()
	const base = "domain: d\ndescriptors:\n  - &base {key: k, value: v, rate_limit: {unit: day, requests_per_unit: 5}, metadata: {a: 1, b: {c: 2}}}\n"
	for _, c := range []struct{ more, want string }{
		{"  - {<<: *base, value: w}", "d.k_w 5/day a,b"},
		{"  - {key: x, <<: *base, value: w}", "d.k_w 5/day a,b"}, // a merged mapping overrides earlier keys
		{"  - {<<: *base, value: w, rate_limit: {requests_per_unit: 7}}", "d.k_w 7/day a,b"},
		{"  - {<<: *base, value: w, rate_limit: {unit: hour}, metadata: {b: 1, d: 2}}", "d.k_w 5/hour a,b,d"},
		{"  - {<<: *base, value: w, rate_limit: ~, rate_limit: {unit: hour}}", "d.k_w 0/hour a,b"},
		{"  - {<<: [{value: w}, *base]}", "d.k_w 5/day a,b"},
		{"  - {<<: [*base, {value: w, metadata: {e: 1}}], key: l}", "d.l_v 5/day a,b,e"},
		{"  - {!!merge \"<<\": *base, value: w}", "d.k_w 5/day a,b"},
		{"  - {! \"<<\": *base, value: w}", "d.k_w 5/day a,b"},
		{"  - {<<: {<<: *base, value: x}, value: w}", "d.k_w 5/day a,b"},
		{"  - {key: &name l, value: *name , rate_limit: {unit: day, unit: hour}}", "d.l_l 0/hour "},
		{"  - {\"<<\": *base, value: w}", "t.yaml: config error, unknown key '<<'"},
		{"  - {!!str <<: *base, value: w}", "t.yaml: config error, unknown key '<<'"},
		{"  - {<<: [[*base]], value: w}", "t.yaml: error loading config file: yaml: map merge requires map or sequence of maps as the value"},
		{"  - {<<: ~, value: w}", "t.yaml: error loading config file: yaml: map merge requires map or sequence of maps as the value"},
		{"  - {key: l, descriptors: &l [{key: m}]}\n  - {key: n, <<: *l }", "t.yaml: error loading config file: yaml: map merge requires map or sequence of maps as the value"},
	} {
		config, err := parse("t.yaml", base+c.more+"\n")
		got := fmt.Sprint(err)
		if err == nil {
			r := config.Rules()[1]
			got = fmt.Sprintf("%s %d/%s %s", r.Path, r.Limits[0].Requests, r.Limits[0].Unit, strings.Join(slices.Sorted(maps.Keys(r.Metadata.GetFields())), ","))
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.more, got, c.want)
		}
	}
}
