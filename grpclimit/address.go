package grpclimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate/clientaddr"
)

// addresses finds the clients behind calls.
type addresses struct {
	resolver *clientaddr.Resolver
	told     []string // the metadata that may tell of a client, in lower case
	trusting bool     // somebody is trusted
}

func newAddresses(opts *clientaddr.Options) (*addresses, error) {
	resolver, err := clientaddr.New(opts)
	if err != nil {
		return nil, err
	}
	a := &addresses{resolver: resolver, told: []string{"x-forwarded-for", "forwarded"}}
	if opts == nil {
		return a, nil
	}
	a.trusting = len(opts.TrustedProxies) > 0 || opts.TrustedHops > 0 || opts.TrustUnix
	if opts.Header != "" {
		a.told = append(a.told, strings.ToLower(opts.Header))
	}
	return a, nil
}

// of is the address of the client behind a call, the zero Addr if it has none. While nobody is trusted, and nobody
// pretends to be a proxy, it does not allocate for a peer by TCP.
func (a *addresses) of(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	header := a.header(ctx)
	if tcp, ok := p.Addr.(*net.TCPAddr); ok && header == nil && !a.trusting {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return a.resolver.AddrOf(remoteAddr(p.Addr), header)
}

// header is the metadata that may tell of a client, nil if there is none.
func (a *addresses) header(ctx context.Context) http.Header {
	var header http.Header
	for _, name := range a.told {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
			if header == nil {
				header = make(http.Header, len(a.told))
			}
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return header
}

// remoteAddr is a peer as net/http would write it: one on a unix socket has no address of its own, whatever file it was bound to.
func remoteAddr(addr net.Addr) string {
	if addr.Network() == "unix" {
		return "@"
	}
	return addr.String()
}
