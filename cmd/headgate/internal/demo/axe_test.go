package demo_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// TestAxe runs axe-core in several states of the page. npm installs the version in
// testdata/axe/package-lock.json.
func TestAxe(t *testing.T) {
	if testing.Short() {
		t.Skip("this test installs a package with npm")
	}
	t.Parallel()
	axe := installAxe(t)
	s := serve(t, demo.Options{})
	b := open(t, s.URL, look{width: 1180, height: 720})
	v := visit(t, b, s.URL)
	eval[bool](t, b, axe+"; true")
	mustPass := func(state string) {
		t.Helper()
		if faults := eval[[]string](t, b, violations); len(faults) > 0 {
			t.Errorf("%s: axe-core reports %q", state, faults)
		}
	}
	mustPass("no requests")
	v.put(t, "rate", "0")
	b.until(t, "document.getElementById('problem').textContent !== ''")
	mustPass("invalid input")
	v.put(t, "rate", "10")
	b.click(t, "[data-scenario=servers]")
	v.tab.until(t, "two tracks", func(s state) bool { return s.Sent > 90 })
	b.click(t, "#stop")
	b.until(t, "document.getElementById('headline').textContent !== ''")
	mustPass("two tracks and a result")
	for _, l := range []look{{width: 1180, height: 720, dark: true}, {width: 390, height: 844, phone: true}, {width: 320, height: 568, phone: true}} {
		b.hold(t, l)
		mustPass(l.String())
	}
}

func installAxe(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := os.ReadFile(filepath.Join("testdata", "axe", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	script, err := os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// violations returns the violations that axe-core finds, with the first element of each.
const violations = `axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations.map((v) =>
	v.id + ' (' + v.impact + ', ' + v.nodes.length + '): ' + v.nodes[0].html.slice(0, 160)))`
