// Package tlsfiles creates TLS configurations from PEM files. A [Server] reloads its
// files when they change. [Files.Client] reads the files each time it is called, so a
// client that calls it for each connection also uses changed files.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxFileBytes is the maximum size of one file.
const maxFileBytes = 1 << 20

// Files has the paths of the PEM files of a TLS client or server. The zero value means
// no files.
type Files struct {
	// Cert is the file with the certificate chain, and Key the file with its private
	// key.
	Cert, Key string
	// CA is the file with the certificates of the authorities that may sign the
	// certificate of the other side. If it is empty, a client trusts the system's
	// authorities, and a server does not require client certificates.
	CA string
	// PeerName is the DNS name for which the certificate of the other side must be
	// valid. If it is empty, a client requires the host name that it connects to, and a
	// server accepts any name.
	PeerName string
}

// Client reads the files and returns the TLS configuration of a client.
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

// server returns the TLS configuration of a server. It does not reload the files.
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

// contents has the contents of the three files: certificate, key and authorities.
type contents [3][]byte

func (f *Files) read() (*contents, error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("the certificate file and the key file must be set together")
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
		err = fmt.Errorf("%s is larger than %d bytes, the maximum size of a PEM file", path, maxFileBytes)
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
		return nil, fmt.Errorf("%s contains no certificate", path)
	}
	return pool, nil
}
