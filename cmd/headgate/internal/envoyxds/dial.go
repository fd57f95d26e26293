package envoyxds

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// credentials reads the TLS files, if there are any.
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
	// Servers of gRPC turn clients away that ask for signs of life more often than every 5 minutes, if nothing else was said.
	pingAfter   = 6 * time.Minute
	pingTimeout = 20 * time.Second
	mostHeaders = 64 << 10 // bytes of an answer's header
)

// dial makes a connection that is used for one stream. gRPC gives its one attempt 20 seconds, with its TLS.
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
		grpc.WithMaxHeaderListSize(mostHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.opts.MaxMessageBytes)),
	)
}
