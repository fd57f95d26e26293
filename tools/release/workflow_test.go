package main

import (
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow contains the fields of a file in .github/workflows that these tests read.
type workflow struct {
	Jobs map[string]struct {
		Needs []string
		Steps []struct{ Uses, Run string }
	}
}

// The workflows use no third-party actions, pin all actions by commit, and call targets
// and scripts that exist. Nothing is published before the tests.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{"release.yml": "test build", "site.yml": "build"} {
		var w workflow
		text := read(t, "../../.github/workflows/"+file)
		if err := yaml.Unmarshal([]byte(text), &w); err != nil {
			t.Fatal(err)
		}
		w.check(t, file)
		if got := strings.Join(w.Jobs["publish"].Needs, " "); got != want {
			t.Errorf("%s: publish needs %q, want %q", file, got, want)
		}
	}
}

var pinned = regexp.MustCompile(`^actions/(checkout|setup-go|upload-artifact|download-artifact|configure-pages|upload-pages-artifact|deploy-pages)@[0-9a-f]{40}$`)

func (w workflow) check(t *testing.T, file string) {
	t.Helper()
	makefile := read(t, "../../Makefile")
	for name, job := range w.Jobs {
		for _, step := range job.Steps {
			if step.Uses != "" && !pinned.MatchString(step.Uses) {
				t.Errorf("%s: %s uses %s", file, name, step.Uses)
			}
			if target, isMake := strings.CutPrefix(step.Run, "make "); isMake && !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s: %s: the Makefile has no target %s", file, name, target)
			}
			if script, _, _ := strings.Cut(step.Run, " "); strings.HasPrefix(script, "scripts/") {
				read(t, "../../"+script)
			}
		}
	}
}
