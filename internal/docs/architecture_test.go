package docs

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// The architecture page names every package of the released modules.
func TestArchitectureNamesPackages(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/internals/architecture.md")
	found := packages(t)
	if len(found) < 50 {
		t.Fatalf("found %d packages, want at least 50", len(found))
	}
	for _, name := range found {
		name = strings.TrimPrefix(name, "cmd/headgate/internal/")
		if name != "." && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/internals/architecture.md does not name the package %s", name)
		}
	}
}

// packages returns the folders with Go files of the released modules.
func packages(t *testing.T) []string {
	t.Helper()
	var found []string
	walk(t, func(name string) {
		first, _, _ := strings.Cut(name, "/")
		other := slices.Contains([]string{"bench", "examples", "tools", "testdata", "scripts", "docs", "packaging"}, first)
		if strings.HasSuffix(name, ".go") && !other && !strings.Contains(name, "/testdata/") {
			found = append(found, path.Dir(name))
		}
	})
	slices.Sort(found)
	return slices.Compact(found)
}
