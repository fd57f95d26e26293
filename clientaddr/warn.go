package clientaddr

import (
	"net/http"
	"net/netip"
)

// sharedSpace is the shared address space of carriers (RFC 6598). Cloud providers use
// it for load balancers.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// warnOnce logs a warning if no peer is trusted but this peer is probably a proxy,
// because all clients of that proxy then count as one client.
func (r *Resolver) warnOnce(peer string, addr netip.Addr, header http.Header) {
	if len(r.trusted) > 0 || r.unix || r.warned.Load() {
		return
	}
	if !isPrivate(addr) && (addr.IsValid() || !isSocket(peer)) {
		return
	}
	for _, name := range [...]string{forwardedFor, forwarded, r.header} {
		if len(header[name]) > 0 {
			if r.warned.CompareAndSwap(false, true) {
				r.warn("clientaddr: untrusted peer in a private network sends " + name +
					"; if it is your proxy, all of its clients count as one: " +
					"add its network to TrustedProxies, or set TrustUnix for a Unix socket")
			}
			return
		}
	}
}

// isPrivate reports whether a is in a private network or on this machine.
func isPrivate(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || sharedSpace.Contains(a)
}
