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
