package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/reference/errors.md shows commands with their outputs, and the exported errors.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(file, []byte("policies: {login: {limits: 5/15m}, api: {limits: 100/1m}}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := launch(t, 2, "--config", file, "--http-addr", "127.0.0.1:0", "--resp-addr", "127.0.0.1:0", "--grpc-addr", "off", "--admin-addr", "off")
	_, respPort, _ := net.SplitHostPort(p.addrs["resp"])
	ports := strings.NewReplacer("127.0.0.1:8080", p.addrs["http"], "-p 6380", "-p "+respPort, "$ curl", "$ curl -s")
	blocks := regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d console blocks, want 2", len(blocks))
	}
	for _, block := range blocks {
		for command := range strings.SplitSeq(strings.TrimPrefix(block[1], "$ "), "\n$ ") {
			line, want, _ := strings.Cut(command, "\n")
			out, err := exec.Command("sh", "-c", strings.TrimPrefix(ports.Replace("$ "+line), "$ ")).Output()
			if got := strings.TrimSpace(string(out)); err != nil || got != strings.TrimSpace(want) {
				t.Errorf("%s: %v: got %q want %q", line, err, got, want)
			}
		}
	}

	source, err := os.ReadFile("../../errors.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`(?m)^\tErr\w+`).FindAllString(string(source), -1) {
		if !strings.Contains(string(page), "`headgate."+strings.TrimSpace(name)+"`") {
			t.Errorf("the page does not list %s", name)
		}
	}
}
