// Package clientaddr finds the address of the client behind a request: the peer's, unless the peer is a proxy that was named as
// trusted. It believes no header field of anybody else.
//
// A trusted peer's field is read from the right, where our own proxies write, and only as far as trusted ones wrote it: what stands
// left of the first address that is not trusted is whatever the client likes. A field that cannot be read ends the walk; it never
// makes somebody else of the client.
package clientaddr

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// ErrInvalidOptions is what every error of [New] matches.
var ErrInvalidOptions = errors.New("clientaddr: invalid options")

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// Options are a resolver's settings. The zero value of each field is its default; nil means all defaults: nobody is trusted.
type Options struct {
	// TrustedProxies are the networks that proxies of ours stand in. IPv4 networks hold v4-mapped addresses, too; IPv6 networks never
	// hold an IPv4 address. Bits that name a host do not count. 0.0.0.0/0 and ::/0 trust everybody, and so every client's word.
	TrustedProxies []netip.Prefix
	// TrustedHops is how many proxies of ours each request passes, in place of their networks: the client is that many entries from
	// the right, at most 256. Any peer is trusted, so nobody else may reach the server; and a request that has fewer entries did not
	// come that way: it counts as the peer's. Not both.
	TrustedHops int
	// TrustUnix trusts a peer on a unix socket, which has no address: a proxy on this machine.
	TrustUnix bool
	// Header is the one field that trusted proxies tell the client in; empty means X-Forwarded-For. “Forwarded” is read as RFC 7239
	// has it, any other name as one address, in one line, that the outermost proxy set in place of whatever the client sent.
	Header string
	// Warn is called once if a peer of a private network, or on a unix socket, sends X-Forwarded-For, Forwarded or Header while nobody
	// is trusted: most likely a proxy that was not named. The message holds no address. nil means slog.Warn.
	Warn func(message string)
}

// Resolver finds clients' addresses. It is made with [New] and may be used concurrently.
type Resolver struct {
	trusted []netip.Prefix
	hops    int
	unix    bool
	header  string // in its canonical form
	warn    func(string)
	warned  atomic.Bool
}

// New makes a resolver. opts may be nil. It refuses networks and a number of hops together, a number of hops below 0 or above 256,
// a network that is invalid or one of v4-mapped addresses that is wider than all of IPv4, and what is not a field's name.
func New(opts *Options) (*Resolver, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	r := &Resolver{hops: opts.TrustedHops, unix: opts.TrustUnix, header: forwardedFor, warn: opts.Warn}
	for _, p := range opts.TrustedProxies {
		r.trusted = append(r.trusted, unmapped(p))
	}
	if opts.Header != "" {
		r.header = http.CanonicalHeaderKey(opts.Header)
	}
	if r.warn == nil {
		r.warn = func(message string) { slog.Warn(message) }
	}
	return r, nil
}

func (o *Options) validate() error {
	switch {
	case o.TrustedHops < 0 || o.TrustedHops > maxEntries:
		return fmt.Errorf("%w: TrustedHops is %d: it must be between 0 and %d", ErrInvalidOptions, o.TrustedHops, maxEntries)
	case o.TrustedHops > 0 && len(o.TrustedProxies) > 0:
		return fmt.Errorf("%w: TrustedProxies and TrustedHops are both set: choose one; networks are safer", ErrInvalidOptions)
	case o.Header != "" && !isToken(o.Header):
		return fmt.Errorf("%w: Header %q is not the name of a header field", ErrInvalidOptions, o.Header)
	}
	for i, p := range o.TrustedProxies {
		if !p.IsValid() {
			return fmt.Errorf("%w: TrustedProxies[%d] is not a network; netip.ParsePrefix makes one of 10.0.0.0/8",
				ErrInvalidOptions, i)
		}
		if p.Addr().Is4In6() && p.Bits() < mappedBits {
			return fmt.Errorf("%w: TrustedProxies[%d], %s, is wider than all of IPv4: write it as an IPv4 network",
				ErrInvalidOptions, i, p)
		}
	}
	return nil
}

// mappedBits is how long ::ffff:0:0/96 is, which IPv4 is mapped into.
const mappedBits = 96

// unmapped is a network as addresses are compared with it: of IPv4 if it is one of v4-mapped addresses.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}

// Addr is the client's address, unmapped and without a zone; the zero Addr if there is none: a peer on a unix socket, or one whose
// address cannot be read. An address that NAT64 has translated (64:ff9b::/96) stays one of IPv6, so that nobody passes for a proxy by
// it; [Group] knows it. The cost grows with the length of the header's field at most, of which 256 entries are looked at. It does not
// allocate, but for an element that cannot be read or has escapes.
func (r *Resolver) Addr(req *http.Request) netip.Addr { return r.AddrOf(req.RemoteAddr, req.Header) }

// AddrOf is [Resolver.Addr] for a peer, as [http.Request.RemoteAddr] has it, and the header that it sent.
func (r *Resolver) AddrOf(peer string, header http.Header) netip.Addr {
	addr, _ := parseNode(peer)
	switch {
	case !r.trustsPeer(peer, addr):
		r.warnOnce(peer, addr, header)
		return addr
	case r.header == forwardedFor:
		return r.listed(newEntries(header[r.header], lastOfList), addr, parseNode)
	case r.header == forwarded:
		return r.listed(newEntries(header[r.header], lastForwarded), addr, parseForwarded)
	}
	return single(header[r.header], addr)
}

// Trusts reports whether a peer, as [http.Request.RemoteAddr] has it, is one whose fields are believed. It does not allocate.
func (r *Resolver) Trusts(peer string) bool {
	addr, _ := parseNode(peer)
	return r.trustsPeer(peer, addr)
}

func (r *Resolver) trustsPeer(peer string, addr netip.Addr) bool {
	switch {
	case r.hops > 0:
		return true
	case addr.IsValid():
		return r.trusts(addr)
	}
	return r.unix && isSocket(peer)
}

func (r *Resolver) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(r.trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

// isSocket is whether a peer is what net/http calls one on a unix socket: @ or nothing if it has no name, @name, or a path.
func isSocket(peer string) bool {
	return peer == "" || peer[0] == '@' || strings.Contains(peer, "/")
}
