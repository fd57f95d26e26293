package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// lookAgain is how often files of certificates are looked at, at most.
const lookAgain = time.Second

// certificates are those of a door, which are read again when their files change: what is wrong then does not replace what is right.
type certificates struct {
	cert, key, ca string // files; without ca clients need no certificate
	name          string // that the certificate of a client must be for; empty: any

	mu     sync.Mutex
	looked time.Time
	stamp  string // of the files that were read
	holds  *tls.Config
}

func newCertificates(cert, key, ca, name string) *certificates {
	return &certificates{cert: cert, key: key, ca: ca, name: name}
}

// config is what a server takes. It says why the files cannot be used.
func (c *certificates) config() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stamp = c.stampOf()
	var err error
	if c.holds, err = c.read(); err != nil {
		return nil, err
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
		if next, err := c.read(); err == nil {
			c.holds, c.stamp = next, stamp
		}
	}
	return c.holds
}

// stampOf is another one when a file was written or another took its place.
func (c *certificates) stampOf() string {
	stamp := ""
	for _, path := range []string{c.cert, c.key, c.ca} {
		if info, err := os.Stat(path); err == nil {
			stamp += fmt.Sprint(info.ModTime().UnixNano(), info.Size(), " ")
		}
	}
	return stamp
}

func (c *certificates) read() (*tls.Config, error) {
	if c.cert == "" || c.key == "" {
		return nil, errors.New("a certificate needs its key, and both are files: grpc.tls_cert and grpc.tls_key")
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, err
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}
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
