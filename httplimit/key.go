package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/internal/key"
)

// Key says whose budget a request spends: an address, a header field's value, a path, or several of these. Different parts never
// run into each other. A request that lacks the part, or has an empty one, shares one budget with all others that do; see
// [First].
//
// Nothing is normalised: “é” and “e”, upper and lower case, are different keys, and so is each invalid byte.
//
// The text of a key is what a [headgate.Limiter] of the same named policy calls it. The service and package grpclimit write the same
// text for the same parts. For path and method the service writes the same text only if the request has the canonical form: the
// service unescapes, cleans and lower-cases paths, and upper-cases methods. A key of one part is that part; for an address see [clientaddr.AppendKey]. Joined parts have a “+” between them,
// and a “+” or “\” of their own has a “\” before it. A First is the text of the alternative, after its name and a “=” where it
// could be mistaken for another one. A key longer than 1 KiB is replaced with “sha256=” and its SHA-256, and so is one that begins like that.
//
// The zero value means [Address]. A Key may be used concurrently and in any number of charges.
type Key struct{ part key.Part[keyRequest] }

// Address is the client's address; of IPv6 its /64.
func Address() Key { return AddressBlock(64) }

// AddressBlock is the client's address, of IPv6 its first v6Bits bits: a second charge with 48 bounds who holds many /64. Outside
// 1 to 128 it is that of [Address].
func AddressBlock(v6Bits int) Key { return Key{key.Address[keyRequest](v6Bits)} }

// Header is the first value of a header field. Clients choose it: alone it limits only those who keep to it, and whoever invents
// values has a budget for each.
func Header(name string) Key {
	if name == "" {
		return Key{key.Wrong[keyRequest]("Header has no name")}
	}
	name = http.CanonicalHeaderKey(name)
	return text(key.FieldName("header", name), func(r *http.Request) string { return headerValue(r, name) })
}

// Method is the request's method.
func Method() Key { return text("method", func(r *http.Request) string { return r.Method }) }

// Path is the path of the request's URL, as the client wrote it: “/a” and “/%61” are two. Bytes that no URL may hold count as
// their escapes. See [Pattern].
func Path() Key { return text("path", func(r *http.Request) string { return r.URL.EscapedPath() }) }

// Pattern is the pattern of net/http's mux that matched, or chi's, which the middleware must stand behind to know.
func Pattern() Key { return text("pattern", func(r *http.Request) string { return r.Pattern }) }

// Func is what f finds: a user from the request's context, say. It reports false if there is none. It may be called concurrently.
func Func(f func(*http.Request) (string, bool)) Key {
	if f == nil {
		return Key{key.Wrong[keyRequest]("Func has no function")}
	}
	return Key{key.Func[keyRequest](reader(func(r *http.Request) string {
		if found, ok := f(r); ok {
			return found
		}
		return ""
	}))}
}

// Join is all of several parts together: a path and a user. A request has it if it has all of them: First(Join(Path(), user), Address())
// is the address of a request without a user.
func Join(parts ...Key) Key { return Key{key.Join(partsOf(parts)...)} }

// First is the first of several parts that the request has: an API key, else the address; if it has none, it is the last, with
// nothing for what is missing. Which part it was belongs to the key, so a header field's value that looks like an address never
// spends the address' budget.
func First(parts ...Key) Key { return Key{key.First(partsOf(parts)...)} }

// Same is one budget for all requests.
func Global() Key { return Key{key.Global[keyRequest]()} }

func partsOf(keys []Key) []key.Part[keyRequest] {
	parts := make([]key.Part[keyRequest], len(keys))
	for i, k := range keys {
		parts[i] = k.part
	}
	return parts
}

func text(name string, read reader) Key { return Key{key.Text[keyRequest](name, read)} }

// reader reads a part that needs no address.
type reader func(*http.Request) string

// Read returns the part's text.
func (f reader) Read(a keyRequest) string { return f(a.req) }

// headerValue is the first value of a field; net/http keeps Host elsewhere.
func headerValue(r *http.Request, name string) string {
	if name == "Host" {
		return r.Host
	}
	if values := r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// ready returns the key that makes texts, or an error if it lacks something.
func (k Key) ready() (*key.Key[keyRequest], error) { return k.part.Key(Address().part) }

// keyRequest is the request that keys are made for, and its client.
type keyRequest struct {
	req    *http.Request
	client *client
}

// Addr returns the client's address, the zero Addr if there is none.
func (a keyRequest) Addr() netip.Addr { return a.client.address(a.req) }

// client is the client behind one request. Its address is resolved once, when it is needed.
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
