package main

import (
	"net"

	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
)

// openForwardAuth makes the door for proxies, which stands at that for HTTP: they are believed on this machine if nobody else can
// reach it.
func (s *service) openForwardAuth(ln net.Listener) (err error) {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	s.forwardAuth, err = forwardauth.New(s.at("forward_auth"), &forwardauth.Options{
		Local: ok && tcp.IP.IsLoopback(), Log: s.log,
	})
	return err
}
