package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// benchTLS is what a load trusts and shows: files, and a name.
type benchTLS struct{ ca, cert, key, serverName string }

func (b *benchTLS) add(f *pflag.FlagSet) {
	f.StringVar(&b.ca, "ca", "", "a `file` of the authority to trust, over TLS; without one the system's are")
	f.StringVar(&b.cert, "cert", "", "a `file` of the certificate to show, where a door wants one")
	f.StringVar(&b.key, "key", "", "the `file` of that certificate's key")
	f.StringVar(&b.serverName, "server-name", "", "the `name` that the service's certificate must be for; without one the URL's host")
}

// config is what the load of a URL takes; nil if nothing was said.
func (b *benchTLS) config(url string) (*tls.Config, error) {
	if *b == (benchTLS{}) {
		return nil, nil
	}
	if scheme, _, _ := strings.Cut(url, ":"); scheme != "https" && scheme != "grpcs" && scheme != "rediss" {
		return nil, errors.New("--ca, --cert, --key and --server-name are for https://, grpcs:// and rediss://")
	}
	made := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: b.serverName}
	if b.ca != "" {
		text, err := readBounded(b.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		made.RootCAs = x509.NewCertPool()
		if !made.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: %s holds no certificate", b.ca)
		}
	}
	if b.cert == "" && b.key == "" {
		return made, nil
	}
	pair, err := tls.LoadX509KeyPair(b.cert, b.key)
	if err != nil {
		return nil, fmt.Errorf("--cert and --key: %w", err)
	}
	made.Certificates = []tls.Certificate{pair}
	return made, nil
}
