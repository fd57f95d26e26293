package envoyxds

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// credentials loads the TLS files. If no TLS is configured, it returns credentials for
// plain text.
func (c *Client) credentials() (credentials.TransportCredentials, error) {
	if c.opts.TLS == nil {
		return insecure.NewCredentials(), nil
	}
	config, err := c.opts.TLS.Client()
	if err != nil {
		return nil, fmt.Errorf("TLS to the control plane: %w", err)
	}
	return credentials.NewTLS(config), nil
}

const (
	// By default, gRPC servers close connections that send pings more often than
	// every 5 minutes.
	pingAfter      = 6 * time.Minute
	pingTimeout    = 20 * time.Second
	maxHeaderBytes = 64 << 10 // of a response header
)

// dial creates a connection for one stream. gRPC limits the single connection
// attempt, with the TLS handshake, to 20 seconds.
func (c *Client) dial() (*grpc.ClientConn, error) {
	creds, err := c.credentials()
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(c.opts.Server,
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent("headgate"),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.opts.MaxMessageBytes)),
	)
}
