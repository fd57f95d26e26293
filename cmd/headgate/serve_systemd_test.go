package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// The service sends READY=1 to systemd when it answers requests, and STOPPING=1 before it
// stops answering.
func TestSystemdNotifications(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hg") // a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	addr := testserver.FreeAddr(t)
	cmd := exec.Command("headgate", "serve", "--http-addr", addr, "--grpc-addr", "off", "--resp-addr", "off", "--admin-addr", "off")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })

	mustReceive(t, socket, "READY=1")
	resp, err := http.Get("http://" + addr + "/readyz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("no response after READY=1: %v", err)
	}
	_ = resp.Body.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	mustReceive(t, socket, "STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func mustReceive(t *testing.T, socket *net.UnixConn, want string) {
	t.Helper()
	if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1024)
	n, err := socket.Read(got)
	if err != nil || string(got[:n]) != want {
		t.Fatalf("systemd received %q, error %v, want %q", got[:n], err, want)
	}
}
