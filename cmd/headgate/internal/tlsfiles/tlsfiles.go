// Package tlsfiles makes TLS configurations from PEM files. A [Server] reloads its files
// when they change; a client reads them again for each connection, with [Files.Client].
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxFileBytes is the most that one file may have.
const maxFileBytes = 1 << 20

// Files names the PEM files of one end of a TLS connection. The zero value names none.
type Files struct {
	// Cert is the certificate chain, and Key its private key.
	Cert, Key string
	// CA holds the authorities that sign the peer's certificate. Without it a client
	// trusts the system's authorities, and a server requires no certificate.
	CA string
	// PeerName is the name that the peer's certificate must be valid for. If it is empty,
	// a client requires the host that it connects to, and a server accepts any name.
	PeerName string
}

// Client reads the files and returns a client's configuration.
func (f *Files) Client() (*tls.Config, error) {
	read, err := f.read()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.PeerName}
	if f.CA != "" {
		if config.RootCAs, err = read.authorities(f.CA); err != nil {
			return nil, err
		}
	}
	if f.Cert == "" && f.Key == "" {
		return config, nil
	}
	config.Certificates, err = read.certificates()
	return config, err
}

// server returns a server's configuration without reload.
func (f *Files) server(read *contents, protocols []string) (*tls.Config, error) {
	certs, err := read.certificates()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certs, NextProtos: protocols}
	if f.CA == "" {
		return config, nil
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if config.ClientCAs, err = read.authorities(f.CA); err != nil {
		return nil, err
	}
	if f.PeerName != "" {
		config.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(f.PeerName) }
	}
	return config, nil
}

// contents is the text of the files: certificate, key, authorities.
type contents [3][]byte

func (f *Files) read() (*contents, error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("a certificate file requires a key file, and a key file a certificate file")
	}
	var read contents
	for i, path := range []string{f.Cert, f.Key, f.CA} {
		if path == "" {
			continue
		}
		text, err := readBounded(path)
		if err != nil {
			return nil, err
		}
		read[i] = text
	}
	return &read, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(text) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes, the most that is read of a PEM file", path, maxFileBytes)
	}
	return text, err
}

func (c *contents) certificates() ([]tls.Certificate, error) {
	pair, err := tls.X509KeyPair(c[0], c[1])
	return []tls.Certificate{pair}, err
}

func (c *contents) authorities(path string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c[2]) {
		return nil, fmt.Errorf("%s holds no certificate", path)
	}
	return pool, nil
}
