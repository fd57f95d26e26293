package dashboard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/internal/testserver"
)

// deadline bounds waiting; only a failing test waits this long.
const deadline = time.Minute

// The windows are long, so that none ends during a test.
const policies = `
policies:
  api: {limits: ["1000000/100d"], algorithm: fixed_window}
  login: {limits: ["5/100d"], algorithm: fixed_window}
  upload: {limits: ["2/1h"], shadow: true}
  tokens: {limits: ["1000/1h"]}
`

// running is a service in this process.
type running struct {
	t           testing.TB
	path        string // of its configuration file
	http, admin string // base URLs
	resp        string // address
	token       string
	log         *testserver.Log
}

// start starts a service with a store in memory and additional configuration.
func start(t testing.TB, yaml string) *running {
	t.Helper()
	s := &running{t: t, path: filepath.Join(t.TempDir(), "headgate.yaml")}
	s.configure(yaml)
	flags := map[string]string{
		"http.addr": "127.0.0.1:0", "resp.addr": "127.0.0.1:0", "grpc.addr": "off", "admin.addr": "127.0.0.1:0",
	}
	sources := config.Sources{Flags: flags, Path: s.path, Lookup: func(string) (string, bool) { return "", false }}
	c, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	log := new(testserver.Log)
	s.log = log
	served, err := service.New(&service.Options{Config: c, Sources: sources, Version: "1.2.3", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- served.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := served.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	s.http, s.admin = "http://"+awaitListener(t, log, "http"), "http://"+awaitListener(t, log, "admin")
	s.resp = awaitListener(t, log, "resp")
	return s
}

// configure writes the configuration file, which the service reads again.
func (s *running) configure(yaml string) {
	s.t.Helper()
	if err := os.WriteFile(s.path, []byte(yaml), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// reload makes the service read its configuration file again.
func (s *running) reload() {
	s.t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
}

func awaitListener(t testing.TB, log *testserver.Log, name string) string {
	t.Helper()
	pattern := regexp.MustCompile(`msg="listener started" listener=` + name + ` address=(\S+)`)
	for late := time.Now().Add(deadline); time.Now().Before(late); time.Sleep(time.Millisecond) {
		if found := pattern.FindStringSubmatch(log.String()); found != nil {
			return found[1]
		}
	}
	t.Fatalf("the listener %s did not start:\n%s", name, log)
	return ""
}

// post sends a request to the HTTP API or the admin API and returns the response.
func (s *running) post(url string, body any, into any) int {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.do(http.MethodPost, url, bytes.NewReader(text), into)
}

func (s *running) do(method, url string, body io.Reader, into any) int {
	s.t.Helper()
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			s.t.Fatalf("%s: %v in %s", url, err, text)
		}
	}
	return resp.StatusCode
}

// check sends n checks of a key under a policy.
func (s *running) check(n int, policy, key string) {
	s.t.Helper()
	for range n {
		if status := s.post(s.http+"/v1/check", map[string]any{"policy": policy, "key": key}, nil); status != 200 && status != 429 {
			s.t.Fatalf("check of %s: got status %d", policy, status)
		}
	}
}

// hold opens a hold of units of a key.
func (s *running) hold(policy, key string, units int) {
	s.t.Helper()
	if status := s.post(s.http+"/v1/hold", map[string]any{"policy": policy, "key": key, "cost": units, "ttl": "1h"}, nil); status != 200 {
		s.t.Fatalf("hold: got status %d", status)
	}
}

// decisions returns headgate_decisions_total of /metrics, by policy and outcome.
func (s *running) decisions() map[string]int {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.admin+"/metrics", http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	counts := make(map[string]int)
	for _, found := range regexp.MustCompile(`(?m)^headgate_decisions_total\{api="\w+",outcome="(\w+)",policy="([^"]*)"\} (\d+)`).FindAllStringSubmatch(string(text), -1) {
		var n int
		if _, err := fmt.Sscan(found[3], &n); err != nil {
			s.t.Fatal(err)
		}
		counts[found[2]+" "+found[1]] += n
	}
	return counts
}

// remaining returns what is left of a key under the first limit of a policy.
func (s *running) remaining(policy, key string) int64 {
	s.t.Helper()
	var inspected struct {
		Policies []struct{ Limits []struct{ Remaining int64 } }
	}
	s.post(s.admin+"/admin/v1/keys/inspect", map[string]any{"policy": policy, "key": key}, &inspected)
	return inspected.Policies[0].Limits[0].Remaining
}

// audited returns the actions of the audit, the latest first.
func (s *running) audited() string {
	s.t.Helper()
	var audit struct {
		Entries []struct{ Action, Author, Target, Reason string }
	}
	s.do(http.MethodGet, s.admin+"/admin/v1/audit", http.NoBody, &audit)
	var lines []string
	for _, e := range audit.Entries {
		lines = append(lines, strings.Join([]string{e.Action, e.Author, e.Target, e.Reason}, "|"))
	}
	return strings.Join(lines, "\n")
}
