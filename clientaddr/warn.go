package clientaddr

import (
	"net/http"
	"net/netip"
)

// sharedSpace is what carriers give to customers that share an address (RFC 6598); clouds use it for load balancers.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// warnOnce warns of a peer that looks like a proxy of ours while nobody is trusted: then all its clients count as one.
func (r *Resolver) warnOnce(peer string, addr netip.Addr, header http.Header) {
	if len(r.trusted) > 0 || r.unix || r.warned.Load() {
		return
	}
	if !isNear(addr) && (addr.IsValid() || !isSocket(peer)) {
		return
	}
	for _, name := range [...]string{forwardedFor, forwarded, r.header} {
		if len(header[name]) > 0 {
			if r.warned.CompareAndSwap(false, true) {
				r.warn("clientaddr: a peer in a private network sends " + name + ", but no proxy is trusted: if it is one of yours, all of " +
					"its clients count as one until TrustedProxies holds its network, or TrustUnix is set for a unix socket")
			}
			return
		}
	}
}

// isNear is whether an address is of a private network, or of this machine.
func isNear(a netip.Addr) bool {
	return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || sharedSpace.Contains(a)
}
