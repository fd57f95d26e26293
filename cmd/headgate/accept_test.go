//go:build linux

package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"
)

// If no file descriptors are left, each listener logs one line, in the same words, and
// works again as soon as there are some.
func TestLackOfFileDescriptors(t *testing.T) {
	t.Parallel()
	p := startCommand(t, exec.Command("sh", "-c", "ulimit -n 48 && exec headgate serve --http-addr 127.0.0.1:0 --resp-addr 127.0.0.1:0 "+
		"--grpc-addr 127.0.0.1:0 --admin-addr 127.0.0.1:0"))
	p.mustListen(t, 4)
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	failed := func() int { return strings.Count(p.text(), `msg="accept failed; retrying"`) }
	eventually(t, "each listener logs a line", func() bool { // the service closes unused connections after some seconds
		for range 10 {
			for _, addr := range p.addrs {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, conn)
			}
		}
		return failed() == 4
	})
	for _, name := range []string{"http", "resp", "grpc", "admin"} {
		want := `msg="accept failed; retrying" listener=` + name + ` error="too many open files" errors=1`
		if strings.Count(p.text(), want) != 1 {
			t.Errorf("the log has no line, or several, with %s:\n%s", want, p.text())
		}
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	eventually(t, "the service responds", func() bool {
		return exec.Command("headgate", "service", "check", "http://"+p.addrs["http"]).Run() == nil
	})
	if n := strings.Count(p.text(), "too many open files"); n != 4 {
		t.Errorf("%d lines about too many open files, want 4:\n%s", n, p.text())
	}
}
