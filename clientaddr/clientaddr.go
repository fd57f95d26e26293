// Package clientaddr finds the client address of an HTTP request. This is the peer's
// address, the remote address of the connection, unless the peer is a trusted proxy.
// Header fields from other peers are ignored.
//
// In a request from a trusted proxy, the field is read from the right, because proxies
// append on the right, and only up to the first address that is not trusted. Everything
// to the left of that address can be forged by the client. An entry that cannot be
// parsed ends the search: the last address read before it is the result, so the result
// is never the address of another client.
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

// ErrInvalidOptions is matched by every error of [New].
var ErrInvalidOptions = errors.New("clientaddr: invalid options")

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// Options are the settings of a resolver. A field with the zero value has the default
// given in its comment. With nil options, no peer is trusted.
type Options struct {
	// TrustedProxies are the networks of your proxies. An IPv4 network also contains
	// v4-mapped IPv6 addresses. An IPv6 network never contains an IPv4 address. Host
	// bits are ignored. 0.0.0.0/0 and ::/0 trust every peer, so every client can forge
	// its address.
	TrustedProxies []netip.Prefix
	// TrustedHops is the number of your proxies that each request passes, at most 256.
	// The client address is the entry at this position from the right, and every peer
	// is trusted, so the server must be reachable only through your proxies. A request
	// with fewer entries did not pass all proxies; the result is then the peer's
	// address. TrustedHops replaces TrustedProxies: setting both is an error.
	TrustedHops int
	// TrustUnix is whether a peer on a Unix socket, a proxy on this machine, is
	// trusted. Such a peer has no address.
	TrustUnix bool
	// Header is the field in which trusted proxies send the client address. Empty means
	// X-Forwarded-For. “Forwarded” is parsed as in RFC 7239. Any other field must be
	// one line with one address. The outermost proxy must set it and replace a value
	// sent by the client.
	Header string
	// Warn is called with a message when no peer is trusted and a peer in a private
	// network, or on a Unix socket, sends X-Forwarded-For, Forwarded or Header. That
	// peer is probably a proxy missing from TrustedProxies. Warn is called at most
	// once. The message contains no address. nil means slog.Warn.
	Warn func(message string)
}

// Resolver finds client addresses. [New] creates it. It may be used concurrently.
type Resolver struct {
	trusted []netip.Prefix
	hops    int
	unix    bool
	header  string // name of the header field in canonical form
	warn    func(string)
	warned  atomic.Bool
}

// New returns a resolver; opts may be nil. It returns an error if both TrustedProxies
// and TrustedHops are set, if TrustedHops is below 0 or above 256, if a network is
// invalid or is a v4-mapped network wider than all of IPv4, or if Header is not a valid
// field name.
func New(opts *Options) (*Resolver, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	r := &Resolver{hops: opts.TrustedHops, unix: opts.TrustUnix, header: forwardedFor, warn: opts.Warn}
	for _, p := range opts.TrustedProxies {
		r.trusted = append(r.trusted, unmap(p))
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
		return fmt.Errorf("%w: TrustedHops is %d; must be 0 to %d", ErrInvalidOptions, o.TrustedHops, maxEntries)
	case o.TrustedHops > 0 && len(o.TrustedProxies) > 0:
		return fmt.Errorf("%w: TrustedProxies and TrustedHops are both set; set only one (TrustedProxies is safer)", ErrInvalidOptions)
	case o.Header != "" && !isToken(o.Header):
		return fmt.Errorf("%w: Header is %q; must be a valid header field name", ErrInvalidOptions, o.Header)
	}
	for i, p := range o.TrustedProxies {
		if !p.IsValid() {
			return fmt.Errorf("%w: TrustedProxies[%d] is not a valid network; use netip.ParsePrefix",
				ErrInvalidOptions, i)
		}
		if p.Addr().Is4In6() && p.Bits() < mappedBits {
			return fmt.Errorf("%w: TrustedProxies[%d] is %s, wider than all of IPv4; write it as an IPv4 network",
				ErrInvalidOptions, i, p)
		}
	}
	return nil
}

// mappedBits is the prefix length of ::ffff:0:0/96, the network of v4-mapped addresses.
const mappedBits = 96

// unmap converts a v4-mapped network to an IPv4 network. It returns any other network
// unchanged.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}

// Addr returns the client address of req, unmapped and without a zone. It returns the
// zero Addr if there is no address, because the peer is on a Unix socket or its address
// cannot be parsed. An address that was translated by NAT64 (64:ff9b::/96) stays an
// IPv6 address, so that it cannot match an IPv4 proxy; [Group] translates it back. At
// most 256 entries of the field are read; the time is at most proportional to the
// field's length. Addr does not allocate, except for an element that cannot be parsed
// or contains escapes.
func (r *Resolver) Addr(req *http.Request) netip.Addr { return r.AddrOf(req.RemoteAddr, req.Header) }

// AddrOf is like [Resolver.Addr] for a request with the given peer address, in the form
// of [http.Request.RemoteAddr], and the given header.
func (r *Resolver) AddrOf(peer string, header http.Header) netip.Addr {
	addr, _ := parseNode(peer)
	switch {
	case !r.trustsPeer(peer, addr):
		r.warnOnce(peer, addr, header)
		return addr
	case r.header == forwardedFor:
		return r.fromList(newEntries(header[r.header], cutLast), addr, parseNode)
	case r.header == forwarded:
		return r.fromList(newEntries(header[r.header], cutLastForwarded), addr, parseForwarded)
	}
	return fromSingle(header[r.header], addr)
}

// Trusts reports whether the header fields of a peer are trusted. The peer has the form
// of [http.Request.RemoteAddr]. Trusts does not allocate.
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

// isSocket reports whether peer is a Unix socket address as net/http writes it: “@” or
// empty for a socket without a name, otherwise “@name” or a path.
func isSocket(peer string) bool {
	return peer == "" || peer[0] == '@' || strings.Contains(peer, "/")
}
