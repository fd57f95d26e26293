package forwardauth

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// Maximum sizes of the parts of a description, in bytes.
const (
	maxURI    = 8 << 10
	maxMethod = 32
	maxHost   = 255 + len(":65535")
)

// format is one of the two formats in which a proxy describes a request: the names of
// the header fields. All names except uriName and client are in canonical form; these
// two are spelled as in the proxies' documentation.
type format struct {
	uri, method string
	host, proto string // empty if the format has no such field
	uriName     string
	client      string
}

var (
	forwardedFormat = &format{
		uri: "X-Forwarded-Uri", method: "X-Forwarded-Method", host: "X-Forwarded-Host", proto: "X-Forwarded-Proto",
		uriName: "X-Forwarded-Uri", client: "X-Forwarded-For",
	}
	originalFormat = &format{uri: "X-Original-Uri", method: "X-Original-Method", uriName: "X-Original-URI", client: "X-Real-IP"}
)

// isUsed reports whether a header has fields of this format.
func (f *format) isUsed(h http.Header) bool { return len(h[f.uri]) > 0 || len(h[f.method]) > 0 }

// formatOf returns the format of the description in header h. No description, or two,
// is a refusal.
func formatOf(h http.Header) (*format, *refusal) {
	switch forwarded, original := forwardedFormat.isUsed(h), originalFormat.isUsed(h); {
	case forwarded && original:
		return nil, refuse(http.StatusBadRequest, "the request is described twice, by X-Forwarded-Method or X-Forwarded-Uri and "+
			"by X-Original-Method or X-Original-URI; configure the proxy to set one pair and to remove the other")
	case forwarded:
		return forwardedFormat, nil
	case original:
		return originalFormat, nil
	}
	return nil, refuse(http.StatusBadRequest, "the request to check is not described; configure the proxy to set X-Forwarded-Method, "+
		"X-Forwarded-Uri, X-Forwarded-Host and X-Forwarded-For, or X-Original-Method, X-Original-URI and X-Real-IP")
}

// describe reads the description of a request from r into d. It does not read the
// client's address.
func describe(r *http.Request, d *routing.Request) (f *format, refused *refusal) {
	if f, refused = formatOf(r.Header); refused != nil {
		return nil, refused
	}
	if d.Method, refused = singleValue(r.Header, f.method, f.method); refused == nil && !isMethod(d.Method) {
		refused = refuse(http.StatusBadRequest, f.method+" is missing or not a method; configure the proxy to set it to the method of the request")
	}
	if refused != nil {
		return nil, refused
	}
	uri, refused := singleValue(r.Header, f.uri, f.uriName)
	if refused != nil {
		return nil, refused
	}
	authority, refused := splitURI(uri, f, d)
	if refused != nil {
		return nil, refused
	}
	d.Header = r.Header
	return f, hostAndScheme(r, f, authority, d)
}

// hostAndScheme reads the host and the scheme. The host is taken from the host field of
// the format. If there is none, it is the authority of an absolute URI, or else the
// field Host of r.
func hostAndScheme(r *http.Request, f *format, authority string, d *routing.Request) (refused *refusal) {
	d.Host = r.Host
	if authority != "" {
		d.Host = authority
	}
	if f.host == "" {
		return checkHost("Host", d.Host)
	}
	named, refused := singleValue(r.Header, f.host, f.host)
	if refused != nil {
		return refused
	}
	if named != "" {
		d.Host = named
	}
	if d.Scheme, refused = singleValue(r.Header, f.proto, f.proto); refused != nil {
		return refused
	}
	return checkHost(f.host, d.Host)
}

// checkHost returns a refusal for a text that is not a host. No pattern would match
// such a text, so a client could use it to bypass a route. name is the name of the
// field, for the refusal.
func checkHost(name, host string) *refusal {
	if len(host) > maxHost || strings.ContainsAny(host, " \t,/@") {
		return refuse(http.StatusBadRequest, name+" is not a host; configure the proxy to set it to the host of the request, "+
			"replacing the client's field")
	}
	return nil
}

// singleValue returns the value of a header field, or an empty string if the field is
// missing. A repeated field is a refusal. name is the spelling of the field for the
// refusal.
func singleValue(h http.Header, field, name string) (string, *refusal) {
	switch values := h[field]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", refuse(http.StatusBadRequest, name+" is repeated; configure the proxy to replace the client's field")
}

func isMethod(s string) bool {
	if s == "" || len(s) > maxMethod {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return true
}

// splitURI reads the target of a request into d. The target is a path with a query, or
// an absolute URI; for the latter, splitURI returns the authority.
func splitURI(uri string, f *format, d *routing.Request) (authority string, refused *refusal) {
	if len(uri) > maxURI {
		return "", refuse(http.StatusRequestURITooLong, fmt.Sprintf("%s must have at most %d bytes", f.uriName, maxURI))
	}
	rest, query, _ := strings.Cut(uri, "?")
	if _, after, absolute := strings.Cut(rest, "://"); absolute && rest[0] != '/' {
		slash := strings.IndexByte(after+"/", '/')
		authority, rest = after[:slash], after[slash:]
		if rest == "" {
			rest = "/"
		}
	}
	if rest == "" || rest[0] != '/' && rest != "*" {
		return "", refuse(http.StatusBadRequest, f.uriName+" is missing or does not begin with a slash; configure the proxy to set it to the "+
			"path and query that the client sent")
	}
	d.Path, d.RawQuery = rest, query
	return authority, nil
}

// trust determines which connections may describe requests, and which entries of
// X-Forwarded-For are trusted.
type trust struct {
	peers        *clientaddr.Resolver
	list, single *clientaddr.Resolver
	generation   uint64 // generation of the configuration from which trust was created
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newTrust(proxies []netip.Prefix, local bool) (t *trust, err error) {
	t = &trust{}
	discard := func(string) {}
	// The address of the connection is checked separately, with peers. The following
	// resolvers therefore always get trustedPeer, a unix socket, as that address, and
	// trust it.
	if t.list, err = clientaddr.New(&clientaddr.Options{TrustedProxies: proxies, TrustUnix: true, Warn: discard}); err != nil {
		return nil, err
	}
	t.single, err = clientaddr.New(&clientaddr.Options{
		TrustedProxies: proxies, TrustUnix: true, Header: originalFormat.client, Warn: discard,
	})
	if err != nil {
		return nil, err
	}
	if local {
		proxies = append(append([]netip.Prefix(nil), loopback...), proxies...)
	}
	t.peers, err = clientaddr.New(&clientaddr.Options{TrustedProxies: proxies, TrustUnix: local, Warn: discard})
	return t, err
}

// trustedPeer is passed to the resolvers as the connection's address after it was found
// to be trusted.
const trustedPeer = "@"

// client returns the address of the client from the header that the proxy sent. It
// returns the zero Addr if the address is missing or invalid.
func (t *trust) client(f *format, header http.Header) netip.Addr {
	if f == forwardedFormat {
		return t.list.AddrOf(trustedPeer, header)
	}
	return t.single.AddrOf(trustedPeer, header)
}
