package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// A service that denies continues with the counts of another one in shadow mode, with the
// environment of envoyproxy/ratelimit.
func TestEnvoyCountsOfShadowMode(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	root := t.TempDir()
	folder := filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	rules := "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: year, requests_per_unit: 2 }\n"
	if err := os.WriteFile(filepath.Join(folder, "shop.yaml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(shadow string) *launched {
		cmd := exec.Command("headgate", "serve", "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "off")
		cmd.Env = append(os.Environ(), "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "REDIS_SOCKET_TYPE=tcp",
			"REDIS_URL="+redis.Addr(), "REDIS_TIMEOUT=1m", "SHADOW_MODE="+shadow)
		p := startCommand(t, cmd)
		p.mustListen(t, 2)
		return p
	}
	shadow := start("true")
	for range 2 {
		expectCode(t, shadow, `"overallCode":"OK"`)
	}
	expectCode(t, start("false"), `"overallCode":"OVER_LIMIT"`)
	expectCode(t, shadow, `"overallCode":"OK"`)
}

func expectCode(t *testing.T, p *launched, want string) {
	t.Helper()
	body := `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"anna"}]}]}`
	resp, err := http.Post("http://"+p.addrs["http"]+"/json", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(strings.ReplaceAll(string(text), " ", ""), want) {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}
