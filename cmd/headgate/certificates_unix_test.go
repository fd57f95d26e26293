//go:build unix

package main

import (
	"os"
	"syscall"
	"testing"
)

// A pipe is read at the start, and not waited for again.
func TestACertificateOutOfAPipe(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	a.write(dir, 2, "server.example")
	key := mustRead(t, dir+"/tls.key")
	_ = os.Remove(dir + "/tls.key")
	if err := syscall.Mkfifo(dir+"/tls.key", 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(dir+"/tls.key", key, 0o600) }()
	s := newShelf(t, dir)
	s.mustHold(2, "")
}
