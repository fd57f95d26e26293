package tlsfiles_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"

	"github.com/headgate/headgate/internal/testserver"
)

// watched is a server whose handshakes and log a test observes.
type watched struct {
	t      *testing.T
	config *tls.Config
	log    bytes.Buffer
}

func newWatched(t *testing.T, dir string) *watched {
	t.Helper()
	w := &watched{t: t}
	server := tlsfiles.Server{
		Files:    tlsfiles.Files{Cert: dir + "/tls.crt", Key: dir + "/tls.key", CA: dir + "/ca.crt"},
		Listener: "http", Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	var err error
	w.config, err = server.Config()
	must(t, err)
	return w
}

// mustUse lets the interval between two checks pass, then requires that a handshake uses
// a certificate and that one line was logged since the last call, or none if logged is
// empty.
func (w *watched) mustUse(serial int64, logged string) {
	w.t.Helper()
	time.Sleep(time.Minute)
	config, err := w.config.GetConfigForClient(nil)
	must(w.t, err)
	got := config.Certificates[0].Leaf.SerialNumber.Int64()
	if log := w.log.String(); got != serial || strings.Count(log, "\n") != min(1, len(logged)) || !strings.Contains(log, logged) {
		w.t.Errorf("certificate %d is in use, want %d; logged %q, want %q", got, serial, log, logged)
	}
	w.log.Reset()
}

const failed, reloaded = "certificate reload failed; previous certificate stays in use", "certificate reloaded"

func TestPairReplacedInTwoStepsLogsNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, dir, next := testserver.NewAuthority(t), t.TempDir(), t.TempDir()
		a.Write(dir, 2, "server.example")
		w := newWatched(t, dir)
		w.mustUse(2, "")
		a.Write(next, 3, "server.example")
		must(t, os.Rename(next+"/tls.crt", dir+"/tls.crt"))
		w.mustUse(2, "")
		must(t, os.Rename(next+"/tls.key", dir+"/tls.key"))
		w.mustUse(3, reloaded)
		w.mustUse(3, "")
	})
}

func TestReloadFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, dir, other := testserver.NewAuthority(t), t.TempDir(), t.TempDir()
		a.NotAfter = a.NotAfter.Add(24 * time.Hour)
		a.Write(dir, 2, "server.example")
		w := newWatched(t, dir)
		expired := testserver.NewAuthority(t)
		expired.NotAfter = time.Now().Add(-time.Minute)
		key := filepath.Join(dir, "tls.key")
		for _, spoil := range []func(){
			func() { must(t, os.Remove(key)) },
			func() { testserver.ReplaceFile(t, key, nil) },
			func() { testserver.ReplaceFile(t, key, []byte("-----BEGIN EC PRIVATE KEY-----\n")) },
			func() { testserver.ReplaceFile(t, dir+"/ca.crt", []byte("no certificate")) },
			func() {
				a.Write(dir, 9, "server.example")
				a.Write(other, 8, "x")
				testserver.ReplaceFile(t, key, read(t, other+"/tls.key"))
			},
			func() { expired.Write(dir, 7, "server.example") },
		} {
			spoil()
			w.mustUse(2, "")
			w.mustUse(2, failed)
			w.mustUse(2, "")
			w.mustUse(2, "")
		}
		a.Write(dir, 3, "server.example")
		w.mustUse(3, reloaded)
	})
}

// A failure that comes back after the good files is a new one.
func TestReloadFailureIsLoggedAgainAfterTheGoodFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, dir := testserver.NewAuthority(t), t.TempDir()
		a.Write(dir, 2, "server.example")
		w, key := newWatched(t, dir), dir+"/tls.key"
		good := read(t, key)
		for range 2 {
			testserver.ReplaceFile(t, key, []byte("no key"))
			w.mustUse(2, "")
			w.mustUse(2, failed)
			testserver.ReplaceFile(t, key, good)
			w.mustUse(2, "")
		}
	})
}

// Files from an image or an archive may all have the same time and size.
func TestFilesWithTheSameTimeAndSizeAreReloaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, root := testserver.NewAuthority(t), t.TempDir()
		write := func(name string, serial int64) {
			must(t, os.Mkdir(root+"/"+name, 0o700))
			a.Write(root+"/"+name, serial, "server.example")
			for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
				path := filepath.Join(root, name, file)
				text := read(t, path)
				testserver.ReplaceFile(t, path, append(text, bytes.Repeat([]byte("\n"), 4096-len(text))...))
				must(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
			}
		}
		write("one", 2)
		write("two", 3)
		link := func(to string) {
			must(t, os.Symlink(to, root+"/..data.new"))
			must(t, os.Rename(root+"/..data.new", root+"/..data"))
		}
		link("one")
		w := newWatched(t, root+"/..data")
		link("two")
		w.mustUse(3, reloaded)
		link("one")
		w.mustUse(2, reloaded)
	})
}

func TestExpiredCertificateIsLoggedAtStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, dir := testserver.NewAuthority(t), t.TempDir()
		a.NotAfter = time.Now().Add(-time.Minute)
		a.Write(dir, 2, "server.example")
		w := newWatched(t, dir)
		w.mustUse(2, "TLS certificate expired or not yet valid; clients will reject it")
		a.Write(dir, 3, "server.example") // no better, and no worse
		w.mustUse(2, "")
		w.mustUse(2, failed)
	})
}

func TestFilesAreCheckedAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, dir := testserver.NewAuthority(t), t.TempDir()
		a.Write(dir, 2, "server.example")
		w := newWatched(t, dir)
		w.mustUse(2, "")
		a.Write(dir, 3, "server.example")
		config, err := w.config.GetConfigForClient(nil)
		must(t, err)
		if got := config.Certificates[0].Leaf.SerialNumber.Int64(); got != 2 {
			t.Errorf("certificate %d is in use immediately after a check, want 2", got)
		}
		w.mustUse(3, reloaded)
	})
}

func TestServerRequiresCertificateAndKey(t *testing.T) {
	t.Parallel()
	for _, files := range []tlsfiles.Files{{Cert: "c"}, {Key: "k"}, {CA: "a"}} {
		server := tlsfiles.Server{Files: files, Listener: "grpc"}
		_, err := server.Config()
		if err == nil || !strings.Contains(err.Error(), "set both") || !server.Enabled() {
			t.Errorf("%+v: got %v, want an error that names both settings", files, err)
		}
	}
	if new(tlsfiles.Server).Enabled() {
		t.Error("a server without files is enabled")
	}
}
