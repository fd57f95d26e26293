package httplimit

import (
	"net/http"
	"net/netip"
	"net/url"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/internal/key"
	"github.com/headgate/headgate/internal/urlpath"
)

// Key selects the budget that a request spends: by client address, by the value of a
// header field, by path, or by several of these parts. Two requests that differ in a
// part of the key have different budgets. All requests in which a part is missing or
// empty share one budget; see [First].
//
// Values other than a [Path] are not normalized: “é” and “e”, upper and lower case, and
// different invalid bytes make different keys.
//
// The service and package grpclimit build the same key text from the same parts, so
// under a policy with the same name they share the state; a [headgate.Limiter] can use
// this text, too. The text of a method is the same only if the method is in upper case,
// because the service upper-cases methods.
//
// The text of a key is built as follows:
//
//   - A key of one part is the text of that part. For an address see
//     [clientaddr.AppendKey].
//   - The parts of a [Join] are separated by “+”. A “+” or “\” in a part is preceded by
//     “\”.
//   - A [First] is the text of the first alternative that the request has. It is
//     preceded by the name of the alternative and “=” where the text could also be the
//     text of another alternative.
//   - A key longer than 1 KiB is replaced with “sha256=” and its SHA-256. A key that
//     begins with “sha256=” is replaced, too.
//
// The zero value means [Address]. A Key may be used concurrently and in any number of
// charges.
type Key struct{ part key.Part[keyRequest] }

// Address is the client's IPv4 address, or the /64 network of the client's IPv6
// address.
func Address() Key { return AddressBlock(64) }

// AddressBlock is the client's IPv4 address, or the network with the first v6Bits bits
// of the client's IPv6 address. For example, a second charge with 48 bits limits a
// client that controls many /64 networks. If v6Bits is not 1 to 128, it is 64, as in
// [Address].
func AddressBlock(v6Bits int) Key { return Key{key.Address[keyRequest](v6Bits)} }

// Header is the first value of a header field. Clients choose the value, so do not use
// Header alone: a client that sends a new value with each request gets a new budget
// each time.
func Header(name string) Key {
	if name == "" {
		return Key{key.Wrong[keyRequest]("Header has no name")}
	}
	name = http.CanonicalHeaderKey(name)
	return textKey(key.FieldName("header", name), func(r *http.Request) string { return headerValue(r, name) })
}

// Method is the request's method.
func Method() Key { return textKey("method", func(r *http.Request) string { return r.Method }) }

// Path is the path of the request's URL in a canonical form: decoded, without empty
// segments, “.” and “..”, and in lower case (ASCII letters). All spellings of a path that
// a server may treat alike are one key, as in the service: “/a/b”, “//A/%62” and
// “/a/b;x=1”. Paths that could have any number of such forms, such as “/1%2Fb/../login”,
// share one key, “ambiguous”; clients do not normally send them. See [RawPath] and
// [Pattern].
func Path() Key {
	return textKey("path", func(r *http.Request) string { return urlpath.Key(receivedPath(r.URL)) })
}

// receivedPath returns the escaped path of u. Unlike [url.URL.EscapedPath], it returns
// RawPath even if a byte in it should have been escaped. Otherwise such a byte would
// change the other escapes in the path, for example %2F to “/”.
func receivedPath(u *url.URL) string {
	if u.RawPath != "" {
		if path, err := url.PathUnescape(u.RawPath); err == nil && path == u.Path {
			return u.RawPath
		}
	}
	return u.EscapedPath()
}

// RawPath is the path of the request's URL as the client wrote it: “/a” and “/%61” are
// different keys. Bytes that are invalid in a URL are replaced with their escapes.
// Clients choose the spelling, so do not use RawPath to limit what a handler does.
func RawPath() Key {
	return textKey("raw_path", func(r *http.Request) string { return r.URL.EscapedPath() })
}

// Pattern is the pattern of the route that matched in net/http's ServeMux or chi. The
// middleware must run after routing, because the pattern is not known before.
func Pattern() Key { return textKey("pattern", func(r *http.Request) string { return r.Pattern }) }

// Func is the text that f returns, such as the user from the request's context. If the
// request has no such text, f must return false. f may be called concurrently.
func Func(f func(*http.Request) (string, bool)) Key {
	if f == nil {
		return Key{key.Wrong[keyRequest]("Func has no function")}
	}
	return Key{key.Func[keyRequest](f, reader(func(r *http.Request) string {
		if found, ok := f(r); ok {
			return found
		}
		return ""
	}))}
}

// Join combines several parts into one key, such as a path and a user. A request has a
// Join if it has all parts of it. For example, First(Join(Path(), user), Address()) is
// the address if the request has no user.
func Join(parts ...Key) Key { return Key{key.Join(partsOf(parts)...)} }

// First is the first of several parts that the request has, for example an API key or
// otherwise the address. If the request has none of the parts, First is the last part
// with empty text. The key text shows which part was used where this is ambiguous, so a
// header value that looks like an address never spends the budget of that address.
func First(parts ...Key) Key { return Key{key.First(partsOf(parts)...)} }

// Global is a single budget that all requests share.
func Global() Key { return Key{key.Global[keyRequest]()} }

func partsOf(keys []Key) []key.Part[keyRequest] {
	parts := make([]key.Part[keyRequest], len(keys))
	for i, k := range keys {
		parts[i] = k.part
	}
	return parts
}

func textKey(name string, read reader) Key { return Key{key.Text[keyRequest](name, read)} }

// reader reads a part of a request other than the client's address.
type reader func(*http.Request) string

// Read returns the text of the part.
func (f reader) Read(a keyRequest) string { return f(a.req) }

// headerValue returns the first value of a header field. It reads Host from
// [http.Request].Host, where net/http stores the value.
func headerValue(r *http.Request, name string) string {
	if name == "Host" {
		return r.Host
	}
	if values := r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// compile returns the key in the form that writes key texts, or an error if the key is
// invalid.
func (k Key) compile() (*key.Key[keyRequest], error) { return k.part.Key(Address().part) }

// keyRequest is a request and its client: the source of a key's parts.
type keyRequest struct {
	req    *http.Request
	client *client
}

// Addr returns the client's address, or the zero Addr if the address is unknown.
func (a keyRequest) Addr() netip.Addr { return a.client.address(a.req) }

// client finds the address of one request's client when it is first needed, and stores
// it.
type client struct {
	resolver *clientaddr.Resolver
	addr     netip.Addr
	known    bool
}

func (c *client) address(r *http.Request) netip.Addr {
	if !c.known {
		c.addr, c.known = c.resolver.Addr(r), true
	}
	return c.addr
}
