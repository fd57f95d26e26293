package main

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

const (
	lookAgain    = time.Second // how often files of certificates are looked at, at most
	mostKeyBytes = 1 << 20     // of one such file
)

// certificates are those of a door, which are read again when their files change: what is wrong then does not replace what is right.
type certificates struct {
	door          string // as its settings begin
	cert, key, ca string // files; without ca clients need no certificate
	name          string // that the certificate of a client must be for; empty: any
	protocols     []string
	log           *slog.Logger

	mu     sync.Mutex
	once   bool // one of the files is a pipe: it holds nothing any more
	looked time.Time
	stamp  string // of the files that are in use
	wrong  string // the stamp that could not be used at the last look
	told   string // the stamp that was complained of
	holds  *tls.Config
}

// wanted reports whether the door speaks TLS at all.
func (c *certificates) wanted() bool { return c.cert != "" || c.key != "" || c.ca != "" }

// config is what a server takes. It says why the files cannot be used.
func (c *certificates) config() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cert == "" || c.key == "" {
		return nil, fmt.Errorf("TLS of the %s door: a certificate needs its key, and both are files: %s.tls_cert and %s.tls_key", c.door, c.door, c.door)
	}
	c.once = !regular(c.cert) || !regular(c.key) || c.ca != "" && !regular(c.ca)
	files, err := c.read()
	if err == nil {
		c.holds, err = c.make(files)
	}
	if err != nil {
		return nil, fmt.Errorf("TLS of the %s door: %w", c.door, err)
	}
	if err := validNow(c.holds); err != nil {
		c.log.Warn("certificate that clients will not accept", "door", c.door, "cause", err)
	}
	c.stamp = files.stamp()
	outer := c.holds.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil }
	return outer, nil
}

// regular reports whether a path is that of a file, or of nothing, and not of a pipe.
func regular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// current is what holds now.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.once && time.Since(c.looked) >= lookAgain {
		c.looked = time.Now()
		c.look()
	}
	return c.holds
}

// look takes other files into use, if they are fine, and says what came of it, once. Of files that are wrong it tells at the second look:
// a certificate and its key are two files, and whoever replaces them is in between for a moment.
func (c *certificates) look() {
	files, err := c.read()
	stamp := files.stamp()
	if err != nil {
		stamp = err.Error()
	}
	if stamp == c.stamp {
		c.wrong = ""
		return
	}
	var next *tls.Config
	if err == nil {
		next, err = c.make(files)
	}
	if err == nil {
		err = validNow(next)
	}
	if err == nil {
		c.holds, c.stamp, c.wrong, c.told = next, stamp, "", ""
		c.log.Info("certificate read again", "door", c.door)
		return
	}
	if stamp == c.wrong && stamp != c.told {
		c.told = stamp
		c.log.Error("certificate refused: the last good one stays", "door", c.door, "cause", err)
	}
	c.wrong = stamp
}

// keyFiles are what the files of a certificate, of its key and of an authority hold.
type keyFiles [3][]byte

// stamp is another one for other files.
func (f *keyFiles) stamp() string {
	all := sha256.New()
	for _, text := range f {
		fmt.Fprintf(all, "%d %s", len(text), text)
	}
	return string(all.Sum(nil))
}

func (c *certificates) read() (files keyFiles, err error) {
	for i, path := range []string{c.cert, c.key, c.ca} {
		if path == "" {
			continue
		}
		if files[i], err = readBounded(path); err != nil {
			return files, err
		}
	}
	return files, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostKeyBytes))
}

func (c *certificates) make(files keyFiles) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return nil, err
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: c.protocols}
	if c.ca == "" {
		return made, nil
	}
	made.ClientCAs, made.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !made.ClientCAs.AppendCertsFromPEM(files[2]) {
		return nil, fmt.Errorf("%s holds no certificate", c.ca)
	}
	if c.name != "" {
		made.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(c.name) }
	}
	return made, nil
}

// validNow reports a certificate that has expired, or is not valid yet.
func validNow(made *tls.Config) error {
	leaf := made.Certificates[0].Leaf
	if now := time.Now(); now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return fmt.Errorf("it is valid from %s to %s, and not now", leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339))
	}
	return nil
}

// tlsListener is one that keeps the deadlines of the listener below, so that connections that wait are served before it ends.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

// Accept is that of the listener below; the handshake comes with the first use of the connection.
func (l *tlsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(conn, l.config), nil
}

// SetDeadline is that of the listener below.
func (l *tlsListener) SetDeadline(t time.Time) error {
	if ln, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		return ln.SetDeadline(t)
	}
	return errors.ErrUnsupported
}

// secured is a door's listener, with TLS if that is wanted. It closes the one that it was given if it fails.
func secured(ln net.Listener, c *certificates) (net.Listener, error) {
	if !c.wanted() {
		return ln, nil
	}
	made, err := c.config()
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &tlsListener{ln, made}, nil
}

func (s *service) httpCertificates() *certificates {
	c := &s.config.HTTP
	return &certificates{
		door: "http", cert: string(c.TLSCert), key: string(c.TLSKey), ca: string(c.ClientCA), name: c.ClientName,
		protocols: []string{"h2", "http/1.1"}, log: s.log,
	}
}

func (s *service) respCertificates() *certificates {
	c := &s.config.RESP
	return &certificates{door: "resp", cert: string(c.TLSCert), key: string(c.TLSKey), ca: string(c.ClientCA), name: c.ClientName, log: s.log}
}
