package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

const packaging = "../../packaging"

// The flags in the packaging files exist.
func TestPackagingUsesKnownFlags(t *testing.T) {
	t.Parallel()
	flags := serveCommand().Flags()
	for file, least := range map[string]int{"headgate.service": 3, "Dockerfile": 4, "kubernetes.yaml": 8} {
		used := regexp.MustCompile(`(?:^|[ "])--([a-z][a-z-]*)`).FindAllStringSubmatch(commands(t, file), -1)
		if len(used) < least {
			t.Errorf("%s: found %d flags, want at least %d", file, len(used), least)
		}
		for _, f := range used {
			if flags.Lookup(f[1]) == nil {
				t.Errorf("%s: unknown flag --%s", file, f[1])
			}
		}
	}
}

// commands returns the lines of a file that start headgate serve.
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

// The packaged configurations are valid.
func TestPackagedConfigurationsAreValid(t *testing.T) {
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

// The time before SIGKILL is longer than the shutdown of the service.
func TestPackagingAllowsShutdown(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct{ told, killed *regexp.Regexp }{
		"headgate.service": {regexp.MustCompile(`--(?:drain-delay|shutdown-timeout)[ =](\d+s)`), regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+s)$`)},
		"kubernetes.yaml":  {regexp.MustCompile(`--(?:drain-delay|shutdown-timeout)=(\d+s)`), regexp.MustCompile(`terminationGracePeriodSeconds: (\d+)`)},
	} {
		text, err := os.ReadFile(filepath.Join(packaging, file))
		if err != nil {
			t.Fatal(err)
		}
		stopping, killed := seconds(t, c.told.FindAllStringSubmatch(string(text), -1)), seconds(t, c.killed.FindAllStringSubmatch(string(text), -1))
		if stopping == 0 || killed < stopping+5*time.Second {
			t.Errorf("%s: the shutdown takes up to %v, and SIGKILL follows after %v", file, stopping, killed)
		}
	}
}

// seconds adds up the durations in the matches.
func seconds(t *testing.T, found [][]string) (sum time.Duration) {
	t.Helper()
	for _, m := range found {
		d, err := time.ParseDuration(strings.TrimSuffix(m[1], "s") + "s")
		if err != nil {
			t.Fatal(err)
		}
		sum += d
	}
	return sum
}
