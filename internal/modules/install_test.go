package modules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var installBlock = regexp.MustCompile("(?s)<!-- run: TestInstallFromClone -->\n```sh\n(.*?)```")

// The commands of docs/start/install.md work one after another in an empty folder. Git
// clones this repository instead of the public one.
func TestInstallFromClone(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		return // slow: compiles the service in a new folder
	}
	page, err := os.ReadFile(filepath.Join(repository(t), "docs/start/install.md"))
	if err != nil {
		t.Fatal(err)
	}
	env := append([]string{
		"GOWORK=", "GIT_ALLOW_PROTOCOL=file:https", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://" + clone(t) + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + modulePath,
	}, gitIdentity...)
	script := ""
	for _, block := range installBlock.FindAllStringSubmatch(string(page), -1) {
		script += block[1]
	}
	got := run(t, t.TempDir(), env, "bash", "-euc", script)
	for _, want := range []string{"headgate ", " go1.", "denied, retry after: 3m0s"} {
		if !strings.Contains(got, want) {
			t.Errorf("the commands printed %q, want %q", got, want)
		}
	}
}
