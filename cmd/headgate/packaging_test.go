package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/service/config"
)

const packaging = "../../packaging"

// What starts the service elsewhere uses flags that there are.
func TestPackagingUsesFlagsThatThereAre(t *testing.T) {
	t.Parallel()
	flags := serveCommand().Flags()
	for file, least := range map[string]int{"headgate.service": 3, "Dockerfile": 4, "kubernetes.yaml": 8} {
		used := regexp.MustCompile(`(?:^|[ "])--([a-z][a-z-]*)`).FindAllStringSubmatch(commands(t, file), -1)
		if len(used) < least {
			t.Errorf("%s: %d flags were found, want at least %d", file, len(used), least)
		}
		for _, f := range used {
			if flags.Lookup(f[1]) == nil {
				t.Errorf("%s: there is no --%s", file, f[1])
			}
		}
	}
}

// commands are the lines of a file that start headgate serve.
func commands(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(packaging, file))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "ExecStart=") || strings.HasPrefix(line, "CMD ") || strings.HasPrefix(strings.TrimSpace(line), "- --") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// The configurations that come along are fine.
func TestPackagedConfigurationsAreFine(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(packaging + "/headgate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(packaging + "/kubernetes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, inside, _ := strings.Cut(string(manifest), "headgate.yaml: |\n")
	inside, _, _ = strings.Cut(inside, "---\n")
	inside = regexp.MustCompile(`(?m)^    `).ReplaceAllString(inside, "")
	for name, text := range map[string]string{"headgate.yaml": string(text), "kubernetes.yaml": inside} {
		parsed, err := config.Parse(name, []byte(text))
		if err != nil || len(parsed.File.Policies) != 2 || len(parsed.File.Routes) != 2 {
			t.Errorf("%s: %v, want two policies and two routes", name, err)
		}
	}
}
