// Package clientaddr finds the client address of a request. It is the peer's address,
// unless the peer is a trusted proxy. Header fields of other peers are ignored.
//
// The field of a trusted peer is read from the right, where trusted proxies append, and
// only up to the first address that is not trusted. Everything to the left of that
// address can be forged by the client. An entry that cannot be parsed ends the search.
// It never yields the address of another client.
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

// ErrInvalidOptions matches every error of [New].
var ErrInvalidOptions = errors.New("clientaddr: invalid options")

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

// Options are the settings of a resolver. A field that is zero has its default.
// nil means all defaults: no peer is trusted.
type Options struct {
	// TrustedProxies are the networks of your proxies. An IPv4 network also contains
	// v4-mapped IPv6 addresses. An IPv6 network never contains an IPv4 address. Host
	// bits are ignored. 0.0.0.0/0 and ::/0 trust every peer, so every client can forge
	// its address.
	TrustedProxies []netip.Prefix
	// TrustedHops is the number of your proxies that each request passes, at most 256.
	// It replaces TrustedProxies; setting both is an error. The client address is then
	// this many entries from the right. Every peer is trusted, so only your proxies may
	// be able to reach the server. A request with fewer entries did not pass all
	// proxies, and the peer's address is used.
	TrustedHops int
	// TrustUnix trusts a peer on a Unix socket, which has no address: a proxy on this
	// machine.
	TrustUnix bool
	// Header is the field in which trusted proxies send the client address. Empty means
	// X-Forwarded-For. "Forwarded" is parsed as in RFC 7239. Any other field must be
	// one line with one address that the outermost proxy sets, replacing what the
	// client sent.
	Header string
	// Warn is called once if no peer is trusted and a peer in a private network, or on
	// a Unix socket, sends X-Forwarded-For, Forwarded or Header. It is then probably a
	// proxy missing from TrustedProxies. The message contains no address. nil means
	// slog.Warn.
	Warn func(message string)
}

// Resolver finds client addresses. [New] creates it. It may be used concurrently.
type Resolver struct {
	trusted []netip.Prefix
	hops    int
	unix    bool
	header  string // in canonical form
	warn    func(string)
	warned  atomic.Bool
}

// New returns a resolver. opts may be nil. It returns an error if both networks and a
// number of hops are set, if the number of hops is below 0 or above 256, if a network
// is invalid or is a v4-mapped network wider than all of IPv4, or if Header is not a
// valid field name.
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
		return fmt.Errorf("%w: TrustedProxies and TrustedHops are both set; set only one (networks are safer)", ErrInvalidOptions)
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

// mappedBits is the length of ::ffff:0:0/96, the prefix of v4-mapped addresses.
const mappedBits = 96

// unmapped returns a v4-mapped network as an IPv4 network, and any other network
// unchanged.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}

// Addr returns the client address, unmapped and without a zone. It returns the zero
// Addr if there is none: the peer is on a Unix socket, or its address cannot be parsed.
// An address that NAT64 has translated (64:ff9b::/96) stays an IPv6 address, so that it
// cannot match an IPv4 proxy; [Group] translates it. The cost is at most proportional
// to the length of the field, of which 256 entries are read. Addr does not allocate,
// except for an element that cannot be parsed or has escapes.
func (r *Resolver) Addr(req *http.Request) netip.Addr { return r.AddrOf(req.RemoteAddr, req.Header) }

// AddrOf is [Resolver.Addr] for a peer, in the form of [http.Request.RemoteAddr], and
// its header.
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

// Trusts reports whether the fields of a peer, in the form of
// [http.Request.RemoteAddr], are trusted. It does not allocate.
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

// isSocket reports whether net/http gives peer as the address of a Unix socket: @ or
// empty if it has no name, @name, or a path.
func isSocket(peer string) bool {
	return peer == "" || peer[0] == '@' || strings.Contains(peer, "/")
}
