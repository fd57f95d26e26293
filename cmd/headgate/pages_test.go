package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var configurationBlock = regexp.MustCompile("(?s)<!-- run: TestConfigurationsOnPages -->\n```yaml\n(.*?)```")

// The configurations and Envoy rules on pages are valid.
func TestConfigurationsOnPages(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range transcriptPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range configurationBlock.FindAllStringSubmatch(string(text), -1) {
			found++
			checkConfiguration(t, page, block[1])
		}
	}
	if found == 0 {
		t.Error("no page has a configuration")
	}
}

// checkConfiguration runs headgate config check on a configuration, or on a folder with
// Envoy rules.
func checkConfiguration(t *testing.T, page, text string) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "example.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path := file
	if strings.HasPrefix(text, "domain:") {
		path = folder
	}
	if out, err := exec.Command("headgate", "config", "check", path).CombinedOutput(); err != nil {
		t.Errorf("%s:\n%s\n%v: %s", page, text, err, out)
	}
}
