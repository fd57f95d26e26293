package localaccess

import (
	"net"
	"slices"
	"strconv"
	"strings"
)

// Hosts is the rule of one listener about the Host of requests. It protects a listener
// without authentication against DNS rebinding: a page in a browser of this machine
// could use the listener under a name of its own. The zero value allows every Host.
type Hosts struct {
	restricted bool
	names      []string
	port       string // the listener's port
	implied    string // the port of a Host without a port
}

// NewHosts returns the rule of a listener at addr. Allowed are localhost, every literal
// IP address and names, or every Host if names contains “*”. Without names, only a
// listener that is local and does not use TLS is restricted: other machines may use any
// name, and with TLS a browser rejects the certificate.
func NewHosts(addr net.Addr, secure bool, names []string) Hosts {
	h := Hosts{names: names, implied: "80"}
	h.restricted = !slices.Contains(names, "*") && (len(names) > 0 || Addr(addr) && !secure)
	if secure {
		h.implied = "443"
	}
	if addr != nil {
		_, h.port, _ = net.SplitHostPort(addr.String())
	}
	return h
}

// Allow reports whether the listener serves a request with the given Host. No browser
// sends an empty Host, so it is allowed.
func (h *Hosts) Allow(host string) bool {
	return !h.restricted || host == "" || NamedHost(host, h.names...)
}

// AllowForwarded is like [Hosts.Allow] for an API whose clients are proxies, some of
// which send the Host of their own client. Such a Host is allowed if it does not contain
// the port of this listener: a browser that connects to the listener sends its port.
func (h *Hosts) AllowForwarded(host string) bool {
	port := h.implied
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') && colon+1 < len(host) {
		port = host[colon+1:]
	}
	return !mayEqual(port, h.port) || h.Allow(host)
}

// mayEqual reports whether port is the number of the port listener, in any notation, or
// no number.
func mayEqual(port, listener string) bool {
	n, err := strconv.ParseUint(strings.TrimLeft(port, "0"), 10, 16)
	return err != nil || strconv.FormatUint(n, 10) == listener
}
