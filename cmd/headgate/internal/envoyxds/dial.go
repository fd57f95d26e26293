package envoyxds

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// TLS are the files for TLS to a control plane. They are read for each connection, so that those that are replaced count from the next on.
type TLS struct {
	// Cert and Key are the certificate that the control plane is shown; empty means none.
	Cert, Key string
	// CA is who certifies the control plane; empty means those whom the system trusts.
	CA string
	// ServerName is who its certificate must be for; empty means the host of [Options.Server].
	ServerName string
}

// credentials are what the files hold now; plain text for nil.
func (t *TLS) credentials() (credentials.TransportCredentials, error) {
	if t == nil {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("TLS to the control plane: a certificate needs its key, and both are files")
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("TLS to the control plane: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("TLS to the control plane: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("TLS to the control plane: %s holds no certificate", t.CA)
		}
	}
	return credentials.NewTLS(config), nil
}

const (
	// Servers of gRPC turn clients away that ask for signs of life more often than every 5 minutes, if nothing else was said.
	pingAfter   = 6 * time.Minute
	pingTimeout = 20 * time.Second
	mostHeaders = 64 << 10 // bytes of an answer's header
)

// dial makes a connection that is used for one stream. gRPC gives its one attempt 20 seconds, with its TLS.
func (c *Client) dial() (*grpc.ClientConn, error) {
	creds, err := c.opts.TLS.credentials()
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(c.opts.Server,
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent("headgate"),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithMaxHeaderListSize(mostHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.opts.MaxMessageBytes)),
	)
}
