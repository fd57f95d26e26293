package main

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
)

// tlsOf returns the TLS side of a listener.
func (s *service) tlsOf(listener string, from *config.TLS, protocols ...string) *tlsfiles.Server {
	return &tlsfiles.Server{Files: from.Files(), Listener: listener, Protocols: protocols, Log: s.log}
}

// tlsListener makes a TLS connection of each connection it accepts. It passes deadlines on, so that
// connections in the backlog are accepted before the listener closes.
type tlsListener struct {
	net.Listener
	config *tls.Config
}

// Accept does not wait for the handshake, which happens when the connection is first used.
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

// secured adds TLS to a listener if any file is named. It closes ln if it fails.
func secured(ln net.Listener, files *tlsfiles.Server) (net.Listener, error) {
	if !files.Enabled() {
		return ln, nil
	}
	config, err := files.Config()
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return &tlsListener{ln, config}, nil
}
