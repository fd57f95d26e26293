package docs

import (
	"regexp"
	"testing"
)

var (
	makeTarget  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	makeCommand = regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z-]*)")
)

// The targets of make in code blocks and code spans exist.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	found := 0
	for _, p := range pages(t) {
		for _, text := range code(p) {
			for _, m := range makeCommand.FindAllStringSubmatch(text, -1) {
				found++
				if !targets[m[1]] {
					t.Errorf("%s: the Makefile has no target %s", p.path, m[1])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d commands, want at least 20", found)
	}
}

// code returns the code blocks and code spans of a page.
func code(p page) (found []string) {
	for _, b := range p.blocks {
		found = append(found, b.text)
	}
	for _, line := range p.prose {
		found = append(found, codeSpan.FindAllString(line, -1)...)
	}
	return found
}
