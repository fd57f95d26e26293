// Package localaccess decides whether something belongs to this machine: a listen
// address, the Host of a request, or the web page that made a browser send a request.
//
// # The rule
//
// An endpoint without authentication is safe on a shared network, and on a machine with a
// browser, if all of these are true:
//
//   - It listens on this machine only ([Address], [Addr]): a loopback address,
//     "localhost" or a unix socket. A listen address with any other name is not local,
//     because the name may resolve to something else later.
//   - The Host of a request names this machine ([Host]): a loopback address,
//     "localhost" or a name below it. Any other name may be an attacker's that resolves
//     to 127.0.0.1 (DNS rebinding). An endpoint that other machines may use accepts any
//     literal address and the names that its operator lists ([NamedHost]): only a name
//     can be rebound. [Hosts] is this rule for one listener.
//   - No page of another site had a browser send the request ([CrossSite]). A person
//     who follows a link is not such a page.
//   - No proxy sent it on ([Proxied]): behind a proxy the client may be on any machine.
//
// IPv4-mapped IPv6 addresses count as the IPv4 address. All functions are pure and may be
// used concurrently.
package localaccess

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Address reports whether a listener at the address, host:port or unix:/path, is
// reachable only from this machine.
func Address(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	return err == nil && (loopback(host) || strings.EqualFold(host, "localhost"))
}

// Addr reports whether an open listener at the address is reachable only from this
// machine.
func Addr(addr net.Addr) bool {
	_, socket := addr.(*net.UnixAddr)
	return socket || addr != nil && Address(addr.String())
}

// Host reports whether the Host of a request, with or without a port, is a name or
// address of this machine.
func Host(host string) bool {
	name := hostName(host)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || loopback(name)
}

// NamedHost reports whether the Host of a request cannot be the result of DNS
// rebinding. It returns true if [Host] does, for a literal IP address, and for one of
// names, ignoring case.
func NamedHost(host string, names ...string) bool {
	name := hostName(host)
	if Host(host) || slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) }) {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// hostName returns the name or address in a Host, in lower case, without port, brackets
// and trailing dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// CrossSite reports whether a web page of another origin made a browser send r. It
// returns false if the user followed a link, which is a GET or HEAD request whose
// response is shown as a page. For browsers that do not send Sec-Fetch-Site, it checks
// the Origin field. It returns false for other clients, which send neither field.
func CrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "none", "same-origin":
		return false
	case "":
		return foreignOrigin(r)
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	return !reads || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// foreignOrigin reports whether the Origin field of a request differs from its Host. It
// returns true for the origin "null", and false if there is no Origin field.
func foreignOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}

// Proxied reports whether header fields of the request show that a proxy forwarded it.
func Proxied(h http.Header) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}, func(field string) bool {
		return len(h[field]) > 0
	})
}
