// Package localaccess decides what belongs to this machine: listen addresses, the Host of
// a request, and the site of the page that had a browser send it.
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
//     can be rebound.
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

// Address reports whether a listen address, as host:port or unix:/path, can be reached
// from this machine only.
func Address(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	return err == nil && (loopback(host) || strings.EqualFold(host, "localhost"))
}

// Addr reports whether the address of an open listener can be reached from this machine
// only.
func Addr(addr net.Addr) bool {
	_, socket := addr.(*net.UnixAddr)
	return socket || addr != nil && Address(addr.String())
}

// Host reports whether the Host of a request, with or without a port, names this machine.
func Host(host string) bool {
	name := hostName(host)
	return loopback(name) || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// NamedHost reports whether the Host of a request cannot be a rebound name: it is that of
// [Host], a literal address, or one of names, whose case does not matter.
func NamedHost(host string, names ...string) bool {
	name := hostName(host)
	_, err := netip.ParseAddr(name)
	return err == nil || Host(host) || slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) })
}

// hostName is the lower-case name or address in a Host, without port, brackets and final
// dot.
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

// CrossSite reports whether a page of another origin had a browser send r. Reading by
// following a link is not cross-site: a GET or HEAD whose answer becomes the page of a
// tab. Browsers without Sec-Fetch-Site are judged by Origin. Clients that are not
// browsers send neither and are not cross-site.
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

// foreignOrigin reports whether a request has an Origin that is not its Host. "null" is
// foreign.
func foreignOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}

// Proxied reports whether header fields show that a proxy sent the request on.
func Proxied(h http.Header) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}, func(field string) bool {
		return len(h[field]) > 0
	})
}
