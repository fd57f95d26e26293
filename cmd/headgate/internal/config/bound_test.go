package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// The bounds on a file limit the cost of reading it.
func TestParseBounds(t *testing.T) {
	t.Parallel()
	policies := func(n int, each string) string {
		var b strings.Builder
		b.WriteString("policies:\n")
		for i := range n {
			fmt.Fprintf(&b, "  p%d: %s\n", i, each)
		}
		return b.String()
	}
	size := 20_000
	if testing.Short() {
		size = 2_000
	}
	var routes strings.Builder
	routes.WriteString("routes:\n")
	for i := range 1000 {
		fmt.Fprintf(&routes, "- {match: {path: '/%d%s'}, policies: []}\n", i, strings.Repeat("/*/a", 15))
	}
	for _, c := range []struct{ name, text, want string }{
		{"file too long", "#" + strings.Repeat("x", config.MaxFileBytes), "file has more than 1048576 bytes"},
		{"file of maximum length", "#" + strings.Repeat("x", config.MaxFileBytes-1), ""},
		{"nested aliases", strings.Replace(bomb(8), "a0: ", "policies: &p {a: {limits: [1/s]}}\nroutes: ", 1), "a1: unknown key"},
		{"aliases with many values", "policies:\n  a: {limits: [1/s], overrides: &o {" + overrides(5_000) + "}}\n" + many(50), "has more than 200000 values"},
		{"valid aliases", "policies:\n  a: &a {limits: &l [1/s]}\n  b: *a\n  c: {limits: *l}\n", ""},
		{"brackets", strings.Repeat("[", 1<<20), "more than 16 deep"},
		{"braces", strings.Repeat("{a: ", 1<<18), "more than 16 deep"},
		{"dashes", strings.Repeat("- ", 1<<19), "more than 16 deep"},
		{"question marks", strings.Repeat("? ", 1<<19), "more than 16 deep"},
		{"indents", indents(1400), "more than 16 deep"},
		{"many errors", policies(size/4, "{}"), "more"},
		{"many policies", policies(size/2, "{limits: [1/s]}"), ""},
		{"many routes of many segments", routes.String(), ""},
		{"too many routes", strings.Replace(routes.String(), "routes:\n", "routes:\n- {match: {host: a}, policies: []}\n", 1), "list has 1001 entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("f.yaml", []byte(c.text))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %.300v want one with %q", err, c.want)
			}
		})
	}
}

func overrides(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"key:%d": [1/s],`, i)
	}
	return b.String()
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  b%d: {limits: [1/s], overrides: *o}\n", i)
	}
	return b.String()
}

func indents(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}
