package chromium

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed axe/package.json axe/package-lock.json
var axePackage embed.FS

// InstallAxe installs axe-core with npm, in the version of axe/package-lock.json, and
// returns its script. It needs the registry of npm or its cache.
func InstallAxe(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, axePackage); err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(folder, "axe")
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

// Violations runs the script of axe-core on the page and returns the violations that it
// finds, with the first element of each.
func (b *Browser) Violations(t testing.TB, axe string) []string {
	t.Helper()
	return Eval[[]string](t, b, "(() => {"+axe+"\n})();"+violations)
}

const violations = `axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations.map((v) =>
	v.id + ' (' + v.impact + ', ' + v.nodes.length + '): ' + v.nodes[0].html.slice(0, 160)))`
