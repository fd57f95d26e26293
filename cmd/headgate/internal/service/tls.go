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

// serverTLS returns the TLS configuration of a listener; nil if its settings name no
// file.
func serverTLS(listener string, c *config.TLS, log *slog.Logger, protocols ...string) (*tls.Config, error) {
	server := &tlsfiles.Server{Files: c.Files(), Listener: listener, Protocols: protocols, Log: log}
	if !server.Enabled() {
		return nil, nil
	}
	return server.Config()
}

// tlsListener makes a TLS connection of each connection it accepts. It passes deadlines
// on, so that connections in the backlog are accepted before the listener closes.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

// Accept does not wait for the handshake, which happens when the connection is first
// used.
func (l *tlsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(conn, l.config), nil
}

// SetDeadline sets the deadline of the listener below.
func (l *tlsListener) SetDeadline(t time.Time) error {
	if ln, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		return ln.SetDeadline(t)
	}
	return errors.ErrUnsupported
}

// secured adds TLS to a listener, unless config is nil.
func secured(ln net.Listener, config *tls.Config) net.Listener {
	if config == nil {
		return ln
	}
	return &tlsListener{ln, config}
}

// scheme is the URL scheme of HTTP at a listener.
func scheme(ln net.Listener) string {
	if _, ok := ln.(*tlsListener); ok {
		return "https"
	}
	return "http"
}
