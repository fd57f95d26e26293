package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A configuration that is written in place, with a pause before its routes, does not
// stop limiting.
func TestHalfWrittenConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(originConfig)
	p := launch(t, 1, slices.Concat(only, []string{"127.0.0.1:0", "--config", path})...)
	ask := func() int {
		status, _ := sent{method: "GET", path: forwardPath, host: p.addrs["http"], fields: describedLogin}.status(t, p.addrs["http"])
		return status
	}
	for range 5 {
		if got := ask(); got != 200 {
			t.Fatalf("got %d want 200", got)
		}
	}
	changed := strings.Replace(originConfig, "sliding_log }", "sliding_log }\n  other: { limits: [1/s] }", 1)
	policies, _, _ := strings.Cut(changed, "routes:")
	write(policies)
	eventually(t, "the incomplete file is noticed", func() bool { return strings.Contains(p.text(), "configuration file may be incomplete") })
	if got := ask(); got != 429 {
		t.Errorf("while the file has no routes: got %d want 429", got)
	}
	write(changed)
	eventually(t, "the complete file is loaded", func() bool { return strings.Contains(p.text(), `msg="configuration loaded"`) })
	if got := ask(); got != 429 || strings.Count(p.text(), `msg="configuration loaded"`) != 1 {
		t.Errorf("got %d want 429, after one reload:\n%s", got, p.text())
	}
}

// Rules of Envoy that are written in place, with a pause at the end of a line, do not
// stop limiting.
func TestHalfWrittenRules(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "shop.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first = "domain: shop\ndescriptors:\n"
	const rules = "  - {key: other, rate_limit: {unit: year, requests_per_unit: 7}}\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1}}\n"
	write(first + rules)
	p := launch(t, 1, slices.Concat(only, []string{"127.0.0.1:0", "--envoy-config", folder})...)
	ask := func() int {
		body := `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`
		resp, err := http.Post("http://"+p.addrs["http"]+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if a, b := ask(), ask(); a != 200 || b != 429 {
		t.Fatalf("got %d, %d want 200, 429", a, b)
	}
	changed := first + strings.Replace(rules, "7", "9", 1)
	write(changed[:strings.LastIndex(changed, "  - ")])
	eventually(t, "the incomplete file is noticed", func() bool { return strings.Contains(p.text(), "Envoy configuration may be incomplete") })
	if got := ask(); got != 429 {
		t.Errorf("while the file has one rule: got %d want 429", got)
	}
	write(changed)
	eventually(t, "the complete file is loaded", func() bool { return strings.Count(p.text(), `msg="Envoy configuration loaded"`) == 2 })
	if got := ask(); got != 429 {
		t.Errorf("got %d want 429", got)
	}
}
