package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shelf is the certificates of a door, and what they log.
type shelf struct {
	t *testing.T
	*certificates
	log bytes.Buffer
}

func newShelf(t *testing.T, dir string) *shelf {
	t.Helper()
	s := &shelf{t: t}
	s.certificates = &certificates{door: "http", cert: dir + "/tls.crt", key: dir + "/tls.key", ca: dir + "/ca.crt"}
	s.certificates.log = slog.New(slog.NewTextHandler(&s.log, nil))
	if _, err := s.config(); err != nil {
		t.Fatal(err)
	}
	return s
}

// mustHold looks, wants the certificate of a number to be in use then, and what was logged meanwhile; empty for nothing.
func (s *shelf) mustHold(serial int64, logged string) {
	s.t.Helper()
	s.looked = time.Time{}
	got := s.current().Certificates[0].Leaf.SerialNumber.Int64()
	if log := s.log.String(); got != serial || strings.Count(log, "\n") != min(1, len(logged)) || !strings.Contains(log, logged) {
		s.t.Errorf("certificate %d is in use, want %d; logged %q, want %q", got, serial, log, logged)
	}
	s.log.Reset()
}

const refused, again = "certificate refused: the last good one stays", "certificate read again"

func TestAPairThatIsReplacedInTwoStepsIsNotComplainedOf(t *testing.T) {
	t.Parallel()
	a, dir, next := newAuthority(t), t.TempDir(), t.TempDir()
	a.write(dir, 2, "server.example")
	s := newShelf(t, dir)
	s.mustHold(2, "")
	a.write(next, 3, "server.example")
	move := func(name string) {
		if err := os.Rename(next+"/"+name, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	move("tls.crt")
	s.mustHold(2, "")
	move("tls.key")
	s.mustHold(3, again)
	s.mustHold(3, "")
}

func TestWhatStaysWrongIsToldOnce(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	a.write(dir, 2, "server.example")
	s := newShelf(t, dir)
	expired := newAuthority(t)
	expired.ends = time.Now().Add(-time.Minute)
	key := filepath.Join(dir, "tls.key")
	for _, spoil := range []func(){
		func() { _ = os.Remove(key) },
		func() { place(t, key, nil) },
		func() { place(t, key, []byte("-----BEGIN EC PRIVATE KEY-----\n")) },
		func() { place(t, dir+"/ca.crt", []byte("no certificate")) },
		func() {
			a.write(dir, 9, "server.example")
			a.write(dir+"/..", 8, "x")
			place(t, key, mustRead(t, dir+"/../tls.key"))
		},
		func() { expired.write(dir, 7, "server.example") },
	} {
		spoil()
		s.mustHold(2, "")
		s.mustHold(2, refused)
		s.mustHold(2, "")
		s.mustHold(2, "")
	}
	a.write(dir, 3, "server.example")
	s.mustHold(3, again)
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Of files that an image or an archive brings, all may be of one time.
func TestFilesOfOneTimeAndSizeAreToldApart(t *testing.T) {
	t.Parallel()
	a, root := newAuthority(t), t.TempDir()
	write := func(name string, serial int64) {
		if err := os.Mkdir(root+"/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
		a.write(root+"/"+name, serial, "server.example")
		for _, file := range []string{"tls.crt", "tls.key", "ca.crt"} {
			path := filepath.Join(root, name, file)
			text := mustRead(t, path)
			place(t, path, append(text, bytes.Repeat([]byte("\n"), 4096-len(text))...))
			if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("one", 2)
	write("two", 3)
	link := func(to string) {
		_ = os.Symlink(to, root+"/..data.new")
		if err := os.Rename(root+"/..data.new", root+"/..data"); err != nil {
			t.Fatal(err)
		}
	}
	link("one")
	s := newShelf(t, root+"/..data")
	link("two")
	s.mustHold(3, again)
	link("one")
	s.mustHold(2, again)
}

func TestAnExpiredCertificateIsToldOfAtTheStart(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	a.ends = time.Now().Add(-time.Minute)
	a.write(dir, 2, "server.example")
	s := newShelf(t, dir)
	s.mustHold(2, "certificate that clients will not accept")
	a.write(dir, 3, "server.example") // no better, and no worse
	s.mustHold(2, "")
	s.mustHold(2, refused)
}
