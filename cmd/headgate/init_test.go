package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/starter"
)

// shownRequest matches a command in the comments of a configuration, and its output.
var shownRequest = regexp.MustCompile(`(?m)^#   \$ (.+)\n#   (.+)$`)

// Each configuration of headgate init works as it is: the service starts with it, and
// the requests in its comments have the outputs in its comments.
func TestInitRequests(t *testing.T) {
	t.Parallel()
	for _, c := range starter.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			if out, err := exec.Command("headgate", "init", c.Name, "--dir", folder).CombinedOutput(); err != nil {
				t.Fatalf("headgate init: %v: %s", err, out)
			}
			file := filepath.Join(folder, "headgate.yaml")
			out, err := exec.Command("headgate", "config", "check", file).CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), file+": fine: ") {
				t.Fatalf("headgate config check: %v: %s", err, out)
			}
			requests := shownRequest.FindAllStringSubmatch(string(c.Files[0].Text), -1)
			if len(requests) < 2 {
				t.Fatalf("the comments show %d requests, want at least 2", len(requests))
			}
			different, windowEnded := differentOutputs(t, file, requests)
			for windowEnded {
				different, windowEnded = differentOutputs(t, file, requests)
			}
			for _, text := range different {
				t.Error(text)
			}
		})
	}
}

// differentOutputs starts the service with the configuration file, sends the requests to
// it, and returns those whose outputs are not the ones in the comments. windowEnded is
// true if there are some and a minute ended in between, after which the units of a window
// of a minute are available again.
func differentOutputs(t *testing.T, file string, requests [][]string) (different []string, windowEnded bool) {
	p := launch(t, 2, "--config", file, "--http-addr", "127.0.0.1:0", "--resp-addr", "127.0.0.1:0", "--grpc-addr", "off", "--admin-addr", "off")
	_, respPort, _ := net.SplitHostPort(p.addrs["resp"])
	ports := strings.NewReplacer("127.0.0.1:8080", p.addrs["http"], "-p 6380", "-p "+respPort)
	begin := minute()
	for _, r := range requests {
		out, err := exec.Command("sh", "-c", ports.Replace(r[1])).Output()
		first, _, _ := strings.Cut(string(out), "\n")
		if err != nil || strings.TrimSpace(first) != r[2] {
			different = append(different, fmt.Sprintf("%s: %v: got %q want %q", r[1], err, out, r[2]))
		}
	}
	return different, len(different) != 0 && minute() != begin
}

// The settings in comments are valid, too.
func TestInitCommentedSettings(t *testing.T) {
	t.Parallel()
	setting := regexp.MustCompile(`(?m)^#([a-z_]+: )`)
	for _, c := range starter.Cases() {
		text := string(c.Files[0].Text)
		if n := len(setting.FindAllString(text, -1)); n < 2 {
			t.Errorf("%s: %d settings in comments, want at least 2", c.Name, n)
		}
		if _, err := config.Parse("headgate.yaml", []byte(setting.ReplaceAllString(text, "$1"))); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// The configuration of nginx is the one of the guide, which is tested with nginx.
func TestInitNginxConfiguration(t *testing.T) {
	t.Parallel()
	const written, guide = "internal/starter/files/headgate-nginx.conf", "../../docs/guides/proxies/nginx-closed.conf"
	a, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("%s and %s differ; copy the second to the first", written, guide)
	}
}
