package main

import (
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
