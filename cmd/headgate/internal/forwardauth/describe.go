package forwardauth

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// Bounds on what a description may hold, in bytes.
const (
	mostURI    = 8 << 10
	mostMethod = 32
	mostHost   = 255 + len(":65535")
)

// way is one of the ways to describe a request: which fields it takes, by their canonical names, and how people write two of
// them.
type way struct {
	uri, method string
	host, proto string // empty if the way has none
	uriName     string
	client      string
}

var (
	byForwarded = &way{
		uri: "X-Forwarded-Uri", method: "X-Forwarded-Method", host: "X-Forwarded-Host", proto: "X-Forwarded-Proto",
		uriName: "X-Forwarded-Uri", client: "X-Forwarded-For",
	}
	byOriginal = &way{uri: "X-Original-Uri", method: "X-Original-Method", uriName: "X-Original-URI", client: "X-Real-IP"}
)

// in reports whether the header describes a request in this way, at least in part.
func (y *way) in(h http.Header) bool { return len(h[y.uri]) > 0 || len(h[y.method]) > 0 }

// wayOf is the one way in which the header describes a request.
func wayOf(h http.Header) (*way, *refusal) {
	switch forwarded, original := byForwarded.in(h), byOriginal.in(h); {
	case forwarded && original:
		return nil, refuse(http.StatusBadRequest, "the request is described twice, by X-Forwarded-Method or X-Forwarded-Uri and by "+
			"X-Original-Method or X-Original-URI: have the proxy set one pair and remove the other, which is the client's")
	case forwarded:
		return byForwarded, nil
	case original:
		return byOriginal, nil
	}
	return nil, refuse(http.StatusBadRequest, "no request is described: have the proxy set X-Forwarded-Method, X-Forwarded-Uri, "+
		"X-Forwarded-Host and X-Forwarded-For, or X-Original-Method, X-Original-URI and X-Real-IP")
}

// describe reads into d what the proxy says, but for the client's address.
func describe(r *http.Request, d *routing.Request) (y *way, no *refusal) {
	if y, no = wayOf(r.Header); no != nil {
		return nil, no
	}
	if d.Method, no = one(r.Header, y.method, y.method); no == nil && !isMethod(d.Method) {
		no = refuse(http.StatusBadRequest, y.method+" is missing, or holds no method: have the proxy set it to the request's")
	}
	if no != nil {
		return nil, no
	}
	uri, no := one(r.Header, y.uri, y.uriName)
	if no != nil {
		return nil, no
	}
	authority, no := splitURI(uri, y, d)
	if no != nil {
		return nil, no
	}
	d.Header = r.Header
	return y, hostAndScheme(r, y, authority, d)
}

// hostAndScheme reads the host: the one that the proxy names, or that of an absolute URI, or Host.
func hostAndScheme(r *http.Request, y *way, authority string, d *routing.Request) (no *refusal) {
	d.Host = r.Host
	if authority != "" {
		d.Host = authority
	}
	if y.host == "" {
		return checkHost("Host", d.Host)
	}
	named, no := one(r.Header, y.host, y.host)
	if no != nil {
		return no
	}
	if named != "" {
		d.Host = named
	}
	if d.Scheme, no = one(r.Header, y.proto, y.proto); no != nil {
		return no
	}
	return checkHost(y.host, d.Host)
}

// checkHost refuses what no pattern of a host could match, so that nobody gets around a route by it.
func checkHost(name, host string) *refusal {
	if len(host) > mostHost || strings.ContainsAny(host, " \t,/@") {
		return refuse(http.StatusBadRequest, name+" holds no host: have the proxy set it to the request's, in place of what the "+
			"client sent")
	}
	return nil
}

// one is the value of a field that stands there once at most.
func one(h http.Header, field, name string) (string, *refusal) {
	switch values := h[field]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", refuse(http.StatusBadRequest, name+" is there more than once: have the proxy set it in place of what the client sent")
}

func isMethod(s string) bool {
	if s == "" || len(s) > mostMethod {
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

// splitURI reads a request's target: a path with its query, or an absolute URI, whose authority it returns.
func splitURI(uri string, y *way, d *routing.Request) (authority string, no *refusal) {
	if len(uri) > mostURI {
		return "", refuse(http.StatusRequestURITooLong, fmt.Sprintf("%s has more than %d bytes", y.uriName, mostURI))
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
		return "", refuse(http.StatusBadRequest, y.uriName+" is missing, or does not begin with a slash: have the proxy set it to the "+
			"path and query as the client sent them")
	}
	d.Path, d.RawQuery = rest, query
	return authority, nil
}

// trust is who may describe requests, and whose entries in X-Forwarded-For are believed.
type trust struct {
	peers        *clientaddr.Resolver
	list, single *clientaddr.Resolver
	generation   uint64 // of the engine's, which they are of
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func newTrust(proxies []netip.Prefix, local bool) (t *trust, err error) {
	t = &trust{}
	quiet := func(string) {}
	// The field is read as the proxy's word: the resolvers are asked for a peer on a unix socket, which they trust.
	if t.list, err = clientaddr.New(&clientaddr.Options{TrustedProxies: proxies, TrustUnix: true, Warn: quiet}); err != nil {
		return nil, err
	}
	t.single, err = clientaddr.New(&clientaddr.Options{
		TrustedProxies: proxies, TrustUnix: true, Header: byOriginal.client, Warn: quiet,
	})
	if err != nil {
		return nil, err
	}
	if local {
		proxies = append(append([]netip.Prefix(nil), loopback...), proxies...)
	}
	t.peers, err = clientaddr.New(&clientaddr.Options{TrustedProxies: proxies, TrustUnix: local, Warn: quiet})
	return t, err
}

// someProxy stands for the one that was found to be trusted.
const someProxy = "@"

// client is the client's address as the proxy tells it; the zero Addr if it does not.
func (t *trust) client(y *way, header http.Header) netip.Addr {
	if y == byForwarded {
		return t.list.AddrOf(someProxy, header)
	}
	return t.single.AddrOf(someProxy, header)
}
