package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
)

// addTLSFlags adds the flags of a load's TLS.
func addTLSFlags(f *pflag.FlagSet, files *tlsfiles.Files) {
	f.StringVar(&files.CA, "ca", "", "a `file` of the authority to trust, over TLS; without one the system's are")
	f.StringVar(&files.Cert, "cert", "", "a `file` of the certificate to show, where a door wants one")
	f.StringVar(&files.Key, "key", "", "the `file` of that certificate's key")
	f.StringVar(&files.PeerName, "server-name", "", "the `name` that the service's certificate must be for; without one the URL's host")
}

// benchTLS returns the TLS configuration for a load of url; nil if no flag was given.
func benchTLS(url string, files *tlsfiles.Files) (*tls.Config, error) {
	if *files == (tlsfiles.Files{}) {
		return nil, nil
	}
	if scheme, _, _ := strings.Cut(url, ":"); scheme != "https" && scheme != "grpcs" && scheme != "rediss" {
		return nil, errors.New("--ca, --cert, --key and --server-name are for https://, grpcs:// and rediss://")
	}
	config, err := files.Client()
	if err != nil {
		return nil, fmt.Errorf("--ca, --cert and --key: %w", err)
	}
	return config, nil
}
