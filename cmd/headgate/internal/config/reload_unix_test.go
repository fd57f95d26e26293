//go:build unix

package config_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// live starts a Live with a valid file; apply receives later configurations.
func live(t *testing.T, path string, apply func(*config.Config) error) *config.Live {
	t.Helper()
	sources := config.Sources{Path: path}
	first, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	return config.Start(sources, first, apply, nil)
}

func accepts(*config.Config) error { return nil }

// within fails if f does not return in time.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s does not end", what)
	}
}

// A pipe, as with --config <(…), is read once.
func TestPipeReadOnce(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("max_checks: 7\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l := live(t, fmt.Sprintf("/dev/fd/%d", r.Fd()), accepts)
	l.Refresh()
	l.Reload()
	if s := l.Status(); s.Err != nil || s.Refused != 0 || l.Config().MaxChecks != 7 {
		t.Errorf("got %+v with max_checks %d, want what the pipe held", s, l.Config().MaxChecks)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	within(t, "Run", func() { l.Run(ctx, nil, nil) })
}

// A pipe that replaces the file is refused without blocking.
func TestPipeReplacesFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	replace(t, path, "max_checks: 1\n")
	l := live(t, path, accepts)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	within(t, "the look at a pipe", l.Refresh)
	if s := l.Status(); s.Err == nil || s.Generation != 1 {
		t.Errorf("a pipe: got %+v, want it refused", s)
	}
	replace(t, path, "max_checks: 2\n")
	l.Refresh()
	if s := l.Status(); s.Err != nil || s.Generation != 2 {
		t.Errorf("a file again: got %+v, want it in force", s)
	}
}

// Status does not block during a reload, because health checks call it.
func TestStatusDuringReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	replace(t, path, "max_checks: 1\n")
	begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	l := live(t, path, func(*config.Config) error { close(begun); <-goOn; return nil })
	replace(t, path, "max_checks: 2\n")
	go func() { defer close(ended); l.Refresh() }()
	<-begun
	within(t, "Status during a reload", func() {
		if s := l.Status(); s.Generation != 1 || l.Config().MaxChecks != 1 {
			t.Errorf("during the reload: got %+v, want the first", s)
		}
	})
	close(goOn)
	<-ended
	if s := l.Status(); s.Generation != 2 {
		t.Errorf("after it: got %+v, want the second", s)
	}
}

// SIGHUP reloads a file without a watch.
func TestSignalReloadsUnwatchedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.yaml")
	replace(t, path, "max_checks: 7\n")
	l := live(t, path, accepts)
	config.FailWatch(l, syscall.ENAMETOOLONG)
	ctx, cancel := context.WithCancel(t.Context())
	signals, unwatched, ended := make(chan os.Signal), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx, signals, func(err error) { unwatched <- err })
	}()
	if err := <-unwatched; !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("the reported error is %v", err)
	}
	signals <- syscall.SIGHUP // received after the first reading of the file
	replace(t, path, "max_checks: 8\n")
	signals <- syscall.SIGHUP
	signals <- syscall.SIGHUP // received after the reload of the previous signal
	if got := l.Config().MaxChecks; got != 8 {
		t.Errorf("max_checks is %d after SIGHUP, want 8", got)
	}
	cancel()
	<-ended
}
