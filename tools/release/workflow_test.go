package main

import (
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow contains the fields of .github/workflows/release.yml that these tests read.
type workflow struct {
	Jobs map[string]struct {
		Needs []string
		Steps []struct{ Uses, Run string }
	}
}

// The workflow uses no third-party actions, pins all actions by commit, and calls targets
// that the Makefile has. Nothing is published before the tests.
func TestReleaseWorkflow(t *testing.T) {
	t.Parallel()
	var w workflow
	text := read(t, "../../.github/workflows/release.yml")
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	makefile := read(t, "../../Makefile")
	pinned := regexp.MustCompile(`^actions/(checkout|setup-go|upload-artifact|download-artifact)@[0-9a-f]{40}$`)
	for name, job := range w.Jobs {
		for _, step := range job.Steps {
			if step.Uses != "" && !pinned.MatchString(step.Uses) {
				t.Errorf("%s uses %s", name, step.Uses)
			}
			if target, isMake := strings.CutPrefix(step.Run, "make "); isMake && !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s: the Makefile has no target %s", name, target)
			}
		}
	}
	if got := strings.Join(w.Jobs["publish"].Needs, " "); got != "test build" {
		t.Errorf("publish needs %q, want test and build", got)
	}
}
