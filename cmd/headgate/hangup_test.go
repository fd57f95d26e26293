//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// SIGHUP does not end a service that is starting: not while packages are initialized,
// and not later. After the start, it reloads the configuration.
func TestHangupDuringStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(path, []byte("max_checks: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startStarting(t, "serve", "--config", path, "--http-addr", "127.0.0.1:0", "--resp-addr", "off", "--grpc-addr", "off", "--admin-addr", "off")
	sent := 0
	for p.lines.Scan() {
		p.write(p.lines.Text())
		if strings.Contains(p.lines.Text(), "listener started") {
			break
		}
		if strings.Contains(p.lines.Text(), "internal/hangup @") || sent > 0 {
			sent++
			_ = p.cmd.Process.Signal(syscall.SIGHUP)
		}
	}
	if !strings.Contains(p.text(), "listener started") || sent < 10 {
		t.Fatalf("the service ended, or got only %d signals:\n%s", sent, p.text())
	}
	p.mustListen(t, 0)
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	eventually(t, "the configuration is reloaded", func() bool { return strings.Contains(p.text(), `msg="configuration loaded"`) })
}

// SIGHUP ends a service without a configuration file, also if it arrived during the
// start.
func TestHangupEndsServiceWithoutConfiguration(t *testing.T) {
	t.Parallel()
	p := startStarting(t, "serve", "--http-addr", "127.0.0.1:0", "--resp-addr", "off", "--grpc-addr", "off", "--admin-addr", "off")
	for p.lines.Scan() {
		if strings.Contains(p.lines.Text(), "internal/hangup @") {
			_ = p.cmd.Process.Signal(syscall.SIGHUP)
		}
	}
	_ = p.cmd.Wait()
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGHUP {
		t.Errorf("the service ended with %v, want SIGHUP", p.cmd.ProcessState)
	}
}

// startStarting starts headgate with a log that contains a line for each initialized
// package, so that a test can signal the process before main. The command does not ignore
// SIGHUP, also if the tests run under nohup: a signal that this process handles has its
// default action in the command.
func startStarting(t *testing.T, args ...string) *launched {
	t.Helper()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	cmd := exec.Command("headgate", args...)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	return startCommand(t, cmd)
}
