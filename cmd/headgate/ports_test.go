package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// With default ports in use, the error is one line with the command to start on free
// ports. That command works.
func TestDefaultPortsInUse(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"8080", "6380", "8081"} {
		if ln, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil { // otherwise it is in use already
			t.Cleanup(func() { ln.Close() })
		}
	}
	serve := func(flags ...string) string {
		t.Helper()
		cmd := exec.Command("headgate", append([]string{"serve"}, flags...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("headgate serve %v started", flags)
		}
		return string(out)
	}
	const begin, end = "headgate: cannot listen on the default address ", ": address already in use; to use free ports, start with: headgate serve "
	for _, c := range []struct {
		flags          []string
		taken, command string
		listeners      int
	}{
		{nil, "127.0.0.1:8080 (HTTP), 127.0.0.1:6380 (RESP), 127.0.0.1:8081 (gRPC)", "--http-addr 127.0.0.1:0 --resp-addr 127.0.0.1:0 --grpc-addr 127.0.0.1:0", 3},
		{[]string{"--http-addr", "127.0.0.1:0"}, "127.0.0.1:6380 (RESP), 127.0.0.1:8081 (gRPC)", "--resp-addr 127.0.0.1:0 --grpc-addr 127.0.0.1:0", 3},
		{[]string{"--resp-addr", "off", "--grpc-addr", "off"}, "127.0.0.1:8080 (HTTP)", "--http-addr 127.0.0.1:0", 1},
	} {
		got := serve(c.flags...)
		if want := begin + c.taken + end + c.command + "\n"; got != want {
			t.Errorf("headgate serve %v: got %q want %q", c.flags, got, want)
		}
		launch(t, c.listeners, append(c.flags, strings.Fields(c.command)...)...)
	}

	// An address that was chosen is not replaced.
	if got := serve("--http-addr", "127.0.0.1:8080", "--resp-addr", "off", "--grpc-addr", "off"); !strings.Contains(got, "choose another address with --http-addr") {
		t.Errorf("an address from a flag: got %q want the advice to choose another", got)
	}
}
