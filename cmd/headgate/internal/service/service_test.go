package service_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/internal/testserver"
)

// loadConfig reads settings as flags; addresses that are not among them are off.
func loadConfig(t *testing.T, flags map[string]string) (*config.Config, config.Sources) {
	t.Helper()
	all := map[string]string{"http.addr": "off", "resp.addr": "off", "grpc.addr": "off", "admin.addr": "off"}
	for name, value := range flags {
		all[name] = value
	}
	sources := config.Sources{Flags: all, Lookup: func(string) (string, bool) { return "", false }}
	c, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c, sources
}

func newService(t *testing.T, log *testserver.Log, flags map[string]string) (*service.Service, error) {
	t.Helper()
	c, sources := loadConfig(t, flags)
	return service.New(&service.Options{Config: c, Sources: sources, Version: "test", Log: log})
}

// awaitLog waits until the log matches a pattern, and returns its first group.
func awaitLog(t *testing.T, log *testserver.Log, pattern string) string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(log.String()); found != nil {
			return found[len(found)-1]
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log does not match %q:\n%s", pattern, log)
		}
	}
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx // it answers immediately
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestServiceRunsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	log := new(testserver.Log)
	s, err := newService(t, log, map[string]string{
		"http.addr": "127.0.0.1:0", "resp.addr": "127.0.0.1:0", "grpc.addr": "127.0.0.1:0", "admin.addr": "127.0.0.1:0", "metrics.addr": "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	addrs := make(map[string]string)
	for _, name := range []string{"http", "resp", "grpc", "admin", "metrics"} {
		addrs[name] = awaitLog(t, log, `msg="listener started" listener=`+name+` address=(\S+)`)
	}
	for _, url := range []string{"http://" + addrs["http"] + "/readyz", "http://" + addrs["admin"] + "/readyz", "http://" + addrs["metrics"] + "/metrics"} {
		if got := statusOf(t, url); got != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", url, got)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v, want nil", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v, want nil", err)
	}
	if !strings.Contains(log.String(), "shutdown complete") {
		t.Errorf("the log was not written to its end:\n%s", log)
	}
}

// /readyz of the admin listener does not depend on the HTTP API.
func TestHealthWithoutTheHTTPAPI(t *testing.T) {
	t.Parallel()
	log := new(testserver.Log)
	s, err := newService(t, log, map[string]string{"resp.addr": "127.0.0.1:0", "admin.addr": "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if got := statusOf(t, "http://"+awaitLog(t, log, `listener=admin address=(\S+)`)+"/readyz"); got != http.StatusOK {
		t.Errorf("got status %d, want 200", got)
	}
	cancel()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Error(err)
	}
}

func TestNewReportsWhatCannotBeBuilt(t *testing.T) {
	t.Parallel()
	rules := t.TempDir()
	if err := os.WriteFile(filepath.Join(rules, "d.yaml"), []byte("domain: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags map[string]string
		want  string
	}{
		{map[string]string{"store": "memory://?max_entries=x"}, "max_entries"},
		{map[string]string{"resp.addr": "127.0.0.1:0", "envoy.config": rules}, "invalid Envoy configuration in"},
		{map[string]string{"resp.addr": "127.0.0.1:0", "envoy.xds.server": "127.0.0.1:1", "envoy.xds.tls": "true", "envoy.xds.server_ca": rules + "/none"}, "no such file"},
	} {
		if _, err := newService(t, new(testserver.Log), c.flags); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want one that contains %q", c.flags, err, c.want)
		}
	}
}

func TestRunReportsThatNothingListens(t *testing.T) {
	t.Parallel()
	s, err := newService(t, new(testserver.Log), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "all listeners are off") {
		t.Errorf("got error %v, want that no listener is open", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// If one listener cannot be opened, the ports of the others are free again.
func TestRunClosesListenersIfOneFails(t *testing.T) {
	t.Parallel()
	addr := testserver.FreeAddr(t)
	s, err := newService(t, new(testserver.Log), map[string]string{"http.addr": addr, "resp.addr": addr})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot listen for RESP on "+addr) {
		t.Errorf("got error %v, want that the port is in use", err)
	}
	ln, err := service.Listen(t.Context(), "the test", addr, "http-addr")
	if err != nil {
		t.Fatalf("the HTTP listener was not closed: %v", err)
	}
	if err := errors.Join(ln.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}

// If a listener cannot be opened, the servers of those opened before it leave no
// goroutine.
func TestRunEndsServersIfAListenerFails(t *testing.T) { //nolint:paralleltest // it counts goroutines
	ended := leaktest.Since(t)
	addr := testserver.FreeAddr(t)
	s, err := newService(t, new(testserver.Log), map[string]string{"grpc.addr": addr, "metrics.addr": addr})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot listen for metrics on "+addr) {
		t.Errorf("got error %v, want that the port is in use", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ended()
}
