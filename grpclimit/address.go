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

// addresses determines the client addresses of calls.
type addresses struct {
	resolver   *clientaddr.Resolver
	fieldNames []string // metadata names that may carry a client address, in lower case
	trusts     bool     // whether at least one proxy is trusted
}

func newAddresses(opts *clientaddr.Options) (*addresses, error) {
	resolver, err := clientaddr.New(opts)
	if err != nil {
		return nil, err
	}
	a := &addresses{resolver: resolver, fieldNames: []string{"x-forwarded-for", "forwarded"}}
	if opts == nil {
		return a, nil
	}
	a.trusts = len(opts.TrustedProxies) > 0 || opts.TrustedHops > 0 || opts.TrustUnix
	if opts.Header != "" {
		a.fieldNames = append(a.fieldNames, strings.ToLower(opts.Header))
	}
	return a, nil
}

// clientAddr returns the address of the client of a call, or the zero Addr if the
// client has no address. It does not allocate if the connection is TCP, no proxy is
// trusted and the call has no metadata of proxies.
func (a *addresses) clientAddr(ctx context.Context) netip.Addr {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	header := a.header(ctx)
	if tcp, ok := p.Addr.(*net.TCPAddr); ok && header == nil && !a.trusts {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return a.resolver.AddrOf(remoteAddr(p.Addr), header)
}

// header returns the metadata of a call that may carry a client address, as HTTP header
// fields. It returns nil if the call has no such metadata.
func (a *addresses) header(ctx context.Context) http.Header {
	var header http.Header
	for _, name := range a.fieldNames {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
			if header == nil {
				header = make(http.Header, len(a.fieldNames))
			}
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return header
}

// remoteAddr returns an address in the form of http.Request.RemoteAddr. For a Unix
// socket it returns “@”, as net/http does, even if the client's socket is bound to a
// file.
func remoteAddr(addr net.Addr) string {
	if addr.Network() == "unix" {
		return "@"
	}
	return addr.String()
}
