package main

import (
	"bufio"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

var listening = regexp.MustCompile(`msg="listener started" listener=(\w+) address=(\S+)`)

// launched is a service in its own process.
type launched struct {
	cmd   *exec.Cmd
	addrs map[string]string // by listener
	lines *bufio.Scanner    // of its log

	mu  sync.Mutex
	log strings.Builder
}

// launch starts headgate serve, and waits until that many listeners have started.
func launch(t *testing.T, listeners int, flags ...string) *launched {
	t.Helper()
	p := startCommand(t, exec.Command("headgate", append([]string{"serve"}, flags...)...))
	p.mustListen(t, listeners)
	return p
}

// startCommand starts a command and scans its log.
func startCommand(t *testing.T, cmd *exec.Cmd) *launched {
	t.Helper()
	p := &launched{cmd: cmd, addrs: make(map[string]string)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
	p.lines = bufio.NewScanner(stderr)
	return p
}

// mustListen waits until that many listeners have started. It is called once.
func (p *launched) mustListen(t *testing.T, listeners int) {
	t.Helper()
	for len(p.addrs) < listeners && p.lines.Scan() {
		p.write(p.lines.Text())
		if m := listening.FindStringSubmatch(p.lines.Text()); m != nil {
			p.addrs[m[1]] = m[2]
		}
	}
	go func() {
		for p.lines.Scan() {
			p.write(p.lines.Text())
		}
	}()
	if len(p.addrs) < listeners {
		t.Fatalf("the service does not listen: %s", p.text())
	}
}

func (p *launched) write(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.WriteString(line + "\n")
}

func (p *launched) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// eventually waits until a condition is true, for at most 20 s.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("timeout after a minute: %s", what)
}
