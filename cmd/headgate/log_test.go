package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launchUnread starts a service whose log is read until it listens, and not afterwards.
func launchUnread(t *testing.T) (p *launched, log *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	p = &launched{addrs: make(map[string]string)}
	p.cmd = exec.Command("headgate", "serve", "--http-addr", "off", "--grpc-addr", "off", "--resp-addr", "127.0.0.1:0",
		"--admin-addr", "127.0.0.1:0", "--log-denials", "100000")
	p.cmd.Stderr = w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	for lines := bufio.NewScanner(r); len(p.addrs) < 2 && lines.Scan(); {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			p.addrs[m[1]] = m[2]
		}
	}
	return p, r
}

// mustDeny makes n requests that are denied and logged.
func (p *launched) mustDeny(t *testing.T, n int) {
	t.Helper()
	conn, err := net.Dial("tcp", p.addrs["resp"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	go func() { _, _ = io.WriteString(conn, strings.Repeat("CL.THROTTLE k 0 1 3600\r\n", n)) }()
	lines := bufio.NewScanner(conn)
	for i := range 6 * n { // five numbers, and how many they are
		if !lines.Scan() {
			t.Fatalf("after %d answers: %v", i/6, lines.Err())
		}
	}
}

func (p *launched) mustStop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the service ended with error %v", err)
	}
}

func TestFullLogPipeDoesNotBlock(t *testing.T) {
	t.Parallel()
	p, _ := launchUnread(t)
	// 12,000 lines of some 130 bytes exceed the pipe and the queue.
	p.mustDeny(t, 12_000)
	resp, err := http.Get("http://" + p.addrs["admin"] + "/metrics") //nolint:noctx // the response is immediate
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if _, after, _ := strings.Cut(string(text), "\nheadgate_log_lines_dropped_total "); err != nil || after == "" || after[0] == '0' {
		t.Errorf("no dropped line is counted (%v): %.20q", err, after)
	}
	p.mustStop(t)
}

func TestClosedLogPipeDoesNotEndService(t *testing.T) {
	t.Parallel()
	p, log := launchUnread(t)
	_ = log.Close()
	p.mustDeny(t, 100)
	p.mustDeny(t, 100)
	p.mustStop(t)
}
