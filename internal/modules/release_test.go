package modules_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// version is a version that was never published.
const version = "v0.99.99"

// clone creates a repository with the files that git would commit here, and with a
// changelog heading for version.
func clone(t *testing.T) string {
	t.Helper()
	root, folder := repository(t), t.TempDir()
	for file := range strings.SplitSeq(strings.TrimSpace(run(t, root, nil, "git", "ls-files", "-co", "--exclude-standard")), "\n") {
		text, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // removed, not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, folder, file, string(text))
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, folder, "CHANGELOG.md", strings.Replace(string(changelog), "## Unreleased", "## "+version[1:], 1))
	for _, script := range []string{"scripts/modules", "scripts/release"} {
		if err := os.Chmod(filepath.Join(folder, script), 0o755); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	run(t, folder, gitIdentity, "git", "init", "-q")
	run(t, folder, gitIdentity, "git", "add", "-A")
	run(t, folder, gitIdentity, "git", "commit", "-qm", "everything")
	return folder
}

var gitIdentity = []string{
	"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.com",
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
}

func TestReleaseRejectsUnpublishableState(t *testing.T) {
	t.Parallel()
	folder := clone(t)
	release := filepath.Join(folder, "scripts/release")
	for _, c := range []struct {
		name, version string
		prepare       func()
		want          string
	}{
		{"no version", "", nil, `must be like v0.2.0`},
		{"a version without v", "1.0.0", nil, `must be like v0.2.0`},
		{"a major version that needs another path", "v2.0.0", nil, "needs a /v2 suffix"},
		{"no heading in the changelog", "v0.99.98", nil, `no heading "## 0.99.98"`},
		{"a heading of a longer version", "v0.99.9", nil, `no heading "## 0.99.9"`},
		{"a tag that exists", version, func() { run(t, folder, gitIdentity, "git", "tag", "grpclimit/"+version) }, "tag grpclimit/" + version + " exists"},
		{"a changed file", version, func() { write(t, folder, "limit.go", "package headgate") }, "the work tree has changes"},
		{"a replace directive", version, func() {
			run(t, folder, gitIdentity, "git", "checkout", "-q", ".")
			run(t, folder, gitIdentity, "git", "tag", "-d", "grpclimit/"+version)
			run(t, folder, nil, "go", "mod", "edit", "-replace="+modulePath+"=../..", "cmd/headgate/go.mod")
			run(t, folder, gitIdentity, "git", "commit", "-qam", "replace")
		}, "cmd/headgate/go.mod has a replace directive"},
	} {
		if c.prepare != nil {
			c.prepare()
		}
		_, err := runCommand(t, folder, gitIdentity, release, c.version)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
	if left := run(t, folder, nil, "git", "tag") + run(t, folder, nil, "git", "status", "--porcelain"); left != "" {
		t.Errorf("refused releases left tags or changes: %q", left)
	}
}

// The go command can fetch the released modules. A clone replaces the public repository.
func TestReleasedModulesCanBeFetched(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		return // slow: downloads every module into an empty cache
	}
	folder := clone(t)
	run(t, folder, gitIdentity, filepath.Join(folder, "scripts/release"), version)
	for _, module := range shippedModules(t) {
		tag := strings.TrimPrefix(filepath.ToSlash(module)+"/"+version, "./")
		run(t, folder, nil, "git", "rev-parse", "--verify", "-q", "refs/tags/"+tag)
	}

	cache := strings.TrimSpace(run(t, folder, nil, "go", "env", "GOMODCACHE"))
	proxy := strings.TrimSpace(run(t, folder, nil, "go", "env", "GOPROXY"))
	env := append([]string{
		"GOMODCACHE=" + filepath.Join(t.TempDir(), "mod"), "GOFLAGS=-modcacherw", "GOPROXY=file://" + cache + "/cache/download," + proxy,
		"GONOSUMDB=" + modulePath + "," + modulePath + "/*", "GONOPROXY=" + modulePath + "," + modulePath + "/*", "GIT_ALLOW_PROTOCOL=file:https",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + folder + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + modulePath,
	}, gitIdentity...)
	consumer := t.TempDir()
	write(t, consumer, "go.mod", "module example.com/consumer\n\ngo 1.25.0\n")
	write(t, consumer, "main.go", `package main

import (
	_ "github.com/headgate/headgate/grpclimit"
	_ "github.com/headgate/headgate/otelheadgate"
	_ "github.com/headgate/headgate/memstore"
	_ "github.com/headgate/headgate/redisstore/goredis"
)

func main() {}
`)
	run(t, consumer, env, "go", "get", modulePath+"@"+version, modulePath+"/grpclimit@"+version, modulePath+"/otelheadgate@"+version, modulePath+"/redisstore/goredis@"+version)
	run(t, consumer, env, "go", "mod", "tidy")
	run(t, consumer, env, "go", "list", "-mod=readonly", "-deps", "./...")
	got := run(t, consumer, env, "go", "list", "-m", modulePath+"/cmd/headgate@"+version)
	if want := modulePath + "/cmd/headgate " + version; strings.TrimSpace(got) != want {
		t.Errorf("the command: got %q, want %q", got, want)
	}
	for _, module := range []string{"grpclimit", "otelheadgate", "redisstore/goredis", "cmd/headgate"} {
		if got, want := rootChecksum(t, filepath.Join(folder, module)), rootChecksum(t, consumer); got != want {
			t.Errorf("%s/go.sum has checksum %q for the root, the fetched root has %q", module, got, want)
		}
	}
}

// rootChecksum returns the checksum of the root module in a go.sum file.
func rootChecksum(t *testing.T, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if sum, found := strings.CutPrefix(line, modulePath+" "+version+" "); found {
			return strings.TrimSpace(sum)
		}
	}
	t.Fatalf("%s/go.sum has no checksum of the root", folder)
	return ""
}
