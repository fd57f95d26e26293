// Package modules_test checks the modules of this repository: what a program downloads
// and compiles when it imports one, and what a release publishes.
package modules_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/headgate/headgate"

// repository returns the absolute path of the repository's root.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// run runs a command in folder with extra environment variables and returns what it
// prints to standard output.
func run(t *testing.T, folder string, env []string, command ...string) string {
	t.Helper()
	output, err := runCommand(t, folder, env, command...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// commandError is the error of a command, with its output.
type commandError struct {
	command []string
	err     error
	stderr  string
}

func (e *commandError) Error() string {
	return strings.Join(e.command, " ") + ": " + e.err.Error() + "\n" + e.stderr
}

// runCommand is like run, but returns the error of the command.
func runCommand(t *testing.T, folder string, env []string, command ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), append([]string{"GOWORK=off", "GOFLAGS="}, env...)...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), &commandError{command, err, stderr.String()}
	}
	return stdout.String(), nil
}

// write writes a file below folder.
func write(t *testing.T, folder, name, text string) {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// goMod contains the fields of a go.mod file that these tests use.
type goMod struct {
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old struct{ Path string } }
}

func readGoMod(t *testing.T, folder string) (mod goMod) {
	t.Helper()
	text := run(t, folder, nil, "go", "mod", "edit", "-json")
	if err := json.Unmarshal([]byte(text), &mod); err != nil {
		t.Fatal(err)
	}
	return mod
}

// shippedModules returns the folders that scripts/modules lists.
func shippedModules(t *testing.T) []string {
	t.Helper()
	root := repository(t)
	return strings.Fields(run(t, root, nil, filepath.Join(root, "scripts/modules")))
}

func TestShippedModulesHaveNoReplaceDirectives(t *testing.T) {
	t.Parallel()
	for _, folder := range shippedModules(t) {
		mod := readGoMod(t, filepath.Join(repository(t), folder))
		if len(mod.Replace) > 0 {
			t.Errorf("%s/go.mod replaces %v; go install of a released version would refuse it", folder, mod.Replace)
		}
	}
}

func TestRootModuleHasFewRequirements(t *testing.T) {
	t.Parallel()
	var direct []string
	for _, require := range readGoMod(t, repository(t)).Require {
		if !require.Indirect {
			direct = append(direct, require.Path)
		}
		for _, heavy := range []string{"google.golang.org/grpc", "github.com/prometheus", "github.com/spf13", "github.com/redis/go-redis"} {
			if strings.HasPrefix(require.Path, heavy) {
				t.Errorf("the root module requires %s; packages that need it are in modules of their own", require.Path)
			}
		}
	}
	if len(direct) > 8 { // see the changelog and ADR 1
		t.Errorf("the root module has %d direct requirements, want at most 8: %q", len(direct), direct)
	}
}

// Every folder with a go.mod file is listed in scripts/modules, so that nothing is left
// out of tests and releases, and in a go.work file, so that the go command works in it
// without settings. Released modules share the one in the root. The others have their
// own, because their dependencies must not affect the versions in the service's build.
func TestEveryModuleIsListed(t *testing.T) {
	t.Parallel()
	root, shipped := repository(t), shippedModules(t)
	listed := strings.Fields(run(t, root, nil, filepath.Join(root, "scripts/modules"), "--all"))
	tracked := run(t, root, nil, "git", "ls-files", "-co", "--exclude-standard", "go.mod", "*/go.mod")
	for _, file := range strings.Fields(tracked) {
		folder := filepath.Dir(file)
		// Development tools, which no module requires.
		if folder == "tools" || strings.HasPrefix(folder, "tools/traefik") {
			continue
		}
		if !slices.Contains(listed, folder) {
			t.Errorf("scripts/modules does not list %s", folder)
		}
		workspace, use := filepath.Join(root, "go.work"), "./"+folder
		if !slices.Contains(shipped, folder) {
			workspace, use = filepath.Join(root, folder, "go.work"), "."
		}
		text, err := os.ReadFile(workspace)
		if err != nil {
			t.Error(err)
		} else if folder != "." && !slices.Contains(strings.Fields(string(text)), use) {
			t.Errorf("%s does not use %s", workspace, use)
		}
	}
}
