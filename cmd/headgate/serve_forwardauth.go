package main

import (
	"net"
	"net/netip"

	"github.com/headgate/headgate/service/config"
	"github.com/headgate/headgate/service/forwardauth"
)

// openForwardAuth makes the door for proxies, which stands at that for HTTP: they are believed on this machine if nobody else can
// reach it.
func (s *service) openForwardAuth(ln net.Listener) (err error) {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	s.forwardAuth, err = forwardauth.New(s.at("forward_auth"), &forwardauth.Options{
		TrustedProxies: trusted(s.config), Local: ok && tcp.IP.IsLoopback(), Log: s.log,
	})
	return err
}

// trusted are the networks of a configuration's trusted proxies.
func trusted(c *config.Config) []netip.Prefix {
	networks := make([]netip.Prefix, len(c.TrustedProxies))
	for i, n := range c.TrustedProxies {
		networks[i] = n.Prefix
	}
	return networks
}
