package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// lookAgain is how often files of certificates are looked at, at most.
const lookAgain = time.Second

// certificates are those of a door, which are read again when their files change: what is wrong then does not replace what is right.
type certificates struct {
	door          string // as its settings begin
	cert, key, ca string // files; without ca clients need no certificate
	name          string // that the certificate of a client must be for; empty: any
	protocols     []string
	log           *slog.Logger

	mu     sync.Mutex
	looked time.Time
	stamp  string // of the files that were read
	wrong  string // the stamp that was complained of
	holds  *tls.Config
}

// wanted reports whether the door speaks TLS at all.
func (c *certificates) wanted() bool { return c.cert != "" || c.key != "" || c.ca != "" }

// config is what a server takes. It says why the files cannot be used.
func (c *certificates) config() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stamp = c.stampOf()
	var err error
	if c.holds, err = c.read(); err != nil {
		return nil, fmt.Errorf("TLS of the %s door: %w", c.door, err)
	}
	outer := c.holds.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil }
	return outer, nil
}

// current is what holds now.
func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookAgain {
		return c.holds
	}
	c.looked = time.Now()
	if stamp := c.stampOf(); stamp != c.stamp {
		c.reread(stamp)
	}
	return c.holds
}

// reread takes other files into use, if they are fine, and says what came of it, once.
func (c *certificates) reread(stamp string) {
	next, err := c.read()
	if err == nil {
		c.holds, c.stamp = next, stamp
		c.log.Info("certificate read again", "door", c.door)
		return
	}
	if stamp != c.wrong {
		c.log.Error("certificate refused: the last good one stays", "door", c.door, "cause", err)
	}
	c.wrong = stamp
}

// stampOf is another one when a file was written or another took its place.
func (c *certificates) stampOf() string {
	stamp := ""
	for _, path := range []string{c.cert, c.key, c.ca} {
		if info, err := os.Stat(path); err == nil {
			stamp += fmt.Sprint(info.ModTime().UnixNano(), info.Size())
		}
		stamp += " "
	}
	return stamp
}

func (c *certificates) read() (*tls.Config, error) {
	if c.cert == "" || c.key == "" {
		return nil, fmt.Errorf("a certificate needs its key, and both are files: %s.tls_cert and %s.tls_key", c.door, c.door)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, err
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: c.protocols}
	if c.ca == "" {
		return made, nil
	}
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, err
	}
	made.ClientCAs, made.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !made.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", c.ca)
	}
	if c.name != "" {
		made.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(c.name) }
	}
	return made, nil
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
