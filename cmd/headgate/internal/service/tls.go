package service

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
)

// serverTLS returns the TLS configuration of a listener, or nil if no TLS file is set.
func serverTLS(listener string, c *config.TLS, log *slog.Logger, protocols ...string) (*tls.Config, error) {
	server := &tlsfiles.Server{Files: c.Files(), Listener: listener, Protocols: protocols, Log: log}
	if !server.Enabled() {
		return nil, nil
	}
	return server.Config()
}

// tlsListener adds TLS to the connections that a listener accepts. It supports
// deadlines, so that connections in the backlog can be accepted before the listener
// closes.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

// Accept returns a connection before the TLS handshake. The handshake takes place when
// the connection is first used.
func (l *tlsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(conn, l.config), nil
}

// Wrapped returns a listener that adds TLS to the connections of wrap(l.Listener).
func (l *tlsListener) Wrapped(wrap func(net.Listener) net.Listener) net.Listener {
	return &tlsListener{wrap(l.Listener), l.config}
}

// SetDeadline sets the deadline of the underlying listener.
func (l *tlsListener) SetDeadline(t time.Time) error {
	if ln, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		return ln.SetDeadline(t)
	}
	return errors.ErrUnsupported
}

// secured returns a listener that adds TLS to ln, or ln if config is nil.
func secured(ln net.Listener, config *tls.Config) net.Listener {
	if config == nil {
		return ln
	}
	return &tlsListener{ln, config}
}

// scheme returns the URL scheme of HTTP at a listener: http or https.
func scheme(ln net.Listener) string {
	if _, ok := ln.(*tlsListener); ok {
		return "https"
	}
	return "http"
}
