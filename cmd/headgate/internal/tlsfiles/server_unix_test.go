//go:build unix

package tlsfiles_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// A pipe holds its contents once: a server that read it again would wait forever.
func TestCertificateFromPipeIsReadOnce(t *testing.T) {
	t.Parallel()
	a, dir := testserver.NewAuthority(t), t.TempDir()
	a.Write(dir, 2, "server.example")
	key := read(t, dir+"/tls.key")
	must(t, os.Remove(dir+"/tls.key"))
	must(t, syscall.Mkfifo(dir+"/tls.key", 0o600))
	go func() { _ = os.WriteFile(dir+"/tls.key", key, 0o600) }()
	w := newWatched(t, dir)
	config, err := w.config.GetConfigForClient(nil)
	must(t, err)
	if got := config.Certificates[0].Leaf.SerialNumber.Int64(); got != 2 {
		t.Errorf("certificate %d is in use, want 2", got)
	}
}
