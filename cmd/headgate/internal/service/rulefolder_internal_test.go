//go:build unix

package service

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// lines sends each write of a log to a channel.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// SIGHUP reloads a folder of Envoy rules without a watch.
func TestSignalReloadsUnwatchedFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, domain string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("domain: "+domain+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first.yaml", "first")
	sources := config.Sources{Flags: map[string]string{"envoy.config": dir}}
	c, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(memstore.New(nil), c.Engine())
	if err != nil {
		t.Fatal(err)
	}
	v, err := newEnvoy(e, c, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	logged := make(lines, 100)
	v.rules.log = slog.New(slog.NewTextHandler(logged, nil))
	folder := &ruleFolder{rules: v.rules, watch: func(string) (*config.Watcher, error) { return nil, syscall.ENAMETOOLONG }}
	ctx, cancel := context.WithCancel(t.Context())
	hangups, ended := make(chan os.Signal), make(chan struct{})
	go func() { defer close(ended); folder.run(ctx, hangups) }()
	hangups <- syscall.SIGHUP // received after the first reading of the folder
	write("second.yaml", "second")
	hangups <- syscall.SIGHUP
	for !strings.Contains(<-logged, `"Envoy configuration loaded" files=2`) {
	}
	cancel()
	<-ended
}

// Files of rules that may be incomplete take effect once they have not changed for 5 s.
// Other files take effect immediately, and SIGHUP does not wait.
func TestIncompleteRulesWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const complete = "domain: shop\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n" +
		"- {key: b, rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: c, value: long}\n"
	write(complete)
	sources := config.Sources{Flags: map[string]string{"envoy.config": dir}}
	c, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(memstore.New(nil), c.Engine())
	if err != nil {
		t.Fatal(err)
	}
	v, err := newEnvoy(e, c, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	v.rules.log = slog.New(slog.NewTextHandler(&log, nil))
	folder := &ruleFolder{rules: v.rules}
	began := time.Now()
	folder.load(true, began)
	fewer := strings.Replace(complete[:strings.Index(complete, "- {key: b")], "1}", "2}", 1) + "# " + strings.Repeat("comment ", 20) + "\n"
	for i, step := range []struct {
		after  time.Duration
		text   string
		always bool
		again  time.Duration
		loads  int // number of configurations that have taken effect
	}{
		{0, complete, false, 0, 1},
		{0, fewer, false, 5 * time.Second, 1},
		{4 * time.Second, fewer, false, time.Second, 1},
		{5 * time.Second, fewer + "# continued\n", false, 5 * time.Second, 1},
		{9 * time.Second, complete, false, 0, 1},
		{11 * time.Second, fewer, false, 5 * time.Second, 1},
		{12 * time.Second, "domain: [", false, 0, 1},
		{13 * time.Second, fewer, false, 5 * time.Second, 1},
		{18 * time.Second, fewer, false, 0, 2},
		{20 * time.Second, complete, false, 0, 3},
		{20 * time.Second, complete[:len(complete)-len("- {key: c, value: long}\n")], false, 5 * time.Second, 3},
		{21 * time.Second, "domain: shop\ndescriptors:\n", true, 0, 4},
		{22 * time.Second, complete, false, 0, 5},
	} {
		write(step.text)
		if got := folder.load(step.always, began.Add(step.after)); got != step.again {
			t.Errorf("step %d: again in %v want %v", i, got, step.again)
		}
		if got := strings.Count(log.String(), `"Envoy configuration loaded"`); got != step.loads {
			t.Errorf("step %d: %d configurations took effect, want %d", i, got, step.loads)
		}
	}
	if got := strings.Count(log.String(), "may be incomplete"); got != 5 {
		t.Errorf("logged %d times that files may be incomplete, want 5:\n%s", got, log.String())
	}
}
