package modules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var installBlock = regexp.MustCompile("(?s)<!-- run: TestInstallFromClone -->\n```sh\n(.*?)```")

// The commands of docs/start/install.md work in an empty folder. Git clones this
// repository instead of the public one.
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
	folder := t.TempDir()
	wants := []string{"headgate (devel)", "denied, retry after: 3m0s"}
	blocks := installBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) != len(wants) {
		t.Fatalf("the page has %d blocks, want %d", len(blocks), len(wants))
	}
	for i, want := range wants {
		if got := run(t, folder, env, "bash", "-euc", blocks[i][1]); !strings.Contains(got, want) {
			t.Errorf("block %d printed %q, want %q", i+1, got, want)
		}
	}
}
