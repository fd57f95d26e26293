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

// launched is a service that runs as a process of its own.
type launched struct {
	cmd   *exec.Cmd
	addrs map[string]string // by door
	lines *bufio.Scanner    // of its log

	mu  sync.Mutex
	log strings.Builder
}

// launch starts headgate serve, and waits until it listens at so many doors.
func launch(t *testing.T, doors int, flags ...string) *launched {
	t.Helper()
	p := begun(t, exec.Command("headgate", append([]string{"serve"}, flags...)...))
	p.mustListen(t, doors)
	return p
}

// begun starts a command, whose log is read as it comes.
func begun(t *testing.T, cmd *exec.Cmd) *launched {
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

// mustListen waits until the service listens at so many doors. It is called once.
func (p *launched) mustListen(t *testing.T, doors int) {
	t.Helper()
	for len(p.addrs) < doors && p.lines.Scan() {
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
	if len(p.addrs) < doors {
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

// eventually waits until something holds, for as long as a busy machine may take.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 20 s: %s", what)
}
