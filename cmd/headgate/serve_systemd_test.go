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

// systemd hears that the service is ready when it answers, and that it stops before it
// does not.
func TestSystemdIsTold(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "hg") // a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = told.Close() })
	addr := testserver.FreeAddr(t)
	cmd := exec.Command("headgate", "serve", "--http-addr", addr, "--grpc-addr", "off", "--resp-addr", "off", "--admin-addr", "off")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })

	mustHear(t, told, "READY=1")
	resp, err := http.Get("http://" + addr + "/readyz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("behind READY=1 there is no answer: %v", err)
	}
	_ = resp.Body.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	mustHear(t, told, "STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func mustHear(t *testing.T, told *net.UnixConn, want string) {
	t.Helper()
	if err := told.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1024)
	n, err := told.Read(got)
	if err != nil || string(got[:n]) != want {
		t.Fatalf("systemd hears %q, error %v, want %q", got[:n], err, want)
	}
}
