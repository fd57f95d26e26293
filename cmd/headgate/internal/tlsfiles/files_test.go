package tlsfiles_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"

	"github.com/headgate/headgate/internal/testserver"
)

// handshake returns the errors of both ends.
func handshake(t *testing.T, client, server *tls.Config) error {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", server)
	must(t, err)
	defer ln.Close()
	result := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			err = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
		result <- err
	}()
	conn, err := tls.Dial("tcp", ln.Addr().String(), client)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Join(err, <-result)
}

func TestClientAndServerVerifyEachOther(t *testing.T) {
	t.Parallel()
	a, stranger, ours, theirs, foreign := testserver.NewAuthority(t), testserver.NewAuthority(t), t.TempDir(), t.TempDir(), t.TempDir()
	a.Write(ours, 2, "server.example")
	a.Write(theirs, 3, "client.example")
	stranger.Write(foreign, 4, "client.example")
	server := tlsfiles.Server{
		Files:    tlsfiles.Files{Cert: ours + "/tls.crt", Key: ours + "/tls.key", CA: ours + "/ca.crt", PeerName: "client.example"},
		Listener: "http", Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	config, err := server.Config()
	must(t, err)
	for name, c := range map[string]struct {
		files tlsfiles.Files
		ok    bool
	}{
		"both known":               {tlsfiles.Files{theirs + "/tls.crt", theirs + "/tls.key", ours + "/ca.crt", "server.example"}, true},
		"no client certificate":    {tlsfiles.Files{CA: ours + "/ca.crt", PeerName: "server.example"}, false},
		"client of another name":   {tlsfiles.Files{ours + "/tls.crt", ours + "/tls.key", ours + "/ca.crt", "server.example"}, false},
		"client of a stranger":     {tlsfiles.Files{foreign + "/tls.crt", foreign + "/tls.key", ours + "/ca.crt", "server.example"}, false},
		"server of a stranger":     {tlsfiles.Files{theirs + "/tls.crt", theirs + "/tls.key", foreign + "/ca.crt", "server.example"}, false},
		"server of another name":   {tlsfiles.Files{theirs + "/tls.crt", theirs + "/tls.key", ours + "/ca.crt", "other.example"}, false},
		"system authorities trust": {tlsfiles.Files{Cert: theirs + "/tls.crt", Key: theirs + "/tls.key", PeerName: "server.example"}, false},
	} {
		client, err := c.files.Client()
		must(t, err)
		if err := handshake(t, client, config); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want success: %v", name, err, c.ok)
		}
	}
}

func TestClientFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testserver.NewAuthority(t).Write(dir, 2, "client.example")
	long := append(read(t, dir+"/ca.crt"), bytes.Repeat([]byte("\n"), 1<<20)...)
	must(t, os.WriteFile(dir+"/long", long, 0o600))
	for name, files := range map[string]tlsfiles.Files{
		"file that is too long":   {CA: dir + "/long"},
		"certificate without key": {Cert: dir + "/tls.crt"},
		"key without certificate": {Key: dir + "/tls.key"},
		"missing file":            {CA: dir + "/none"},
		"authority that is a key": {CA: dir + "/tls.key"},
	} {
		if _, err := files.Client(); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
