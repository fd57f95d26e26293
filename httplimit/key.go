package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/internal/key"
)

// Key selects the budget that a request spends: by client address, by the value of a
// header field, by path, or by several of these. Two requests that differ in a part
// have different keys. All requests that lack the part, or in which it is empty, share
// one budget; see [First].
//
// Values are not normalised: “é” and “e”, upper and lower case, are different keys, and
// so is each invalid byte.
//
// A [headgate.Limiter] with the same named policy uses the same key text, and so do the
// service and package grpclimit. For path and method the text is the same only if the
// request has the canonical form: the service unescapes, cleans and lower-cases paths,
// and upper-cases methods.
//
// The text of a key is built as follows:
//
//   - A key of one part is the text of that part. For an address see
//     [clientaddr.AppendKey].
//   - The parts of a [Join] are separated by “+”. A “+” or “\” in a part is preceded by
//     “\”.
//   - A [First] is the text of the alternative that was found. The alternative's name
//     and “=” precede it where the text could be that of another alternative.
//   - A key longer than 1 KiB is replaced with “sha256=” and its SHA-256, and so is a
//     key that begins like that.
//
// The zero value means [Address]. A Key may be used concurrently and in any number of
// charges.
type Key struct{ part key.Part[keyRequest] }

// Address is the client's address, for IPv6 its /64 network.
func Address() Key { return AddressBlock(64) }

// AddressBlock is the client's address, for IPv6 the network of its first v6Bits bits.
// A second charge with 48 bits limits a client that controls many /64 networks. A value
// outside 1 to 128 means 64, as in [Address].
func AddressBlock(v6Bits int) Key { return Key{key.Address[keyRequest](v6Bits)} }

// Header is the first value of a header field. Clients choose the value, so do not use it
// alone: a client that sends a new value with each request gets a new budget each time.
func Header(name string) Key {
	if name == "" {
		return Key{key.Wrong[keyRequest]("Header has no name")}
	}
	name = http.CanonicalHeaderKey(name)
	return textKey(key.FieldName("header", name), func(r *http.Request) string { return headerValue(r, name) })
}

// Method is the request's method.
func Method() Key { return textKey("method", func(r *http.Request) string { return r.Method }) }

// Path is the path of the request's URL as the client wrote it: “/a” and “/%61” differ.
// Bytes that are invalid in a URL count as their escapes. See [Pattern].
func Path() Key { return textKey("path", func(r *http.Request) string { return r.URL.EscapedPath() }) }

// Pattern is the route pattern that matched, of net/http's ServeMux or chi. The
// middleware must run after routing, because the pattern is unknown before.
func Pattern() Key { return textKey("pattern", func(r *http.Request) string { return r.Pattern }) }

// Func is the text that f returns, such as the user from the request's context. f
// returns false if the request has none. It may be called concurrently.
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

// Join combines several parts into one key, such as a path and a user. A request has a
// Join if it has all of its parts: First(Join(Path(), user), Address()) is the address
// for a request without a user.
func Join(parts ...Key) Key { return Key{key.Join(partsOf(parts)...)} }

// First is the first of several parts that the request has, such as an API key, else
// the address. If the request has none of them, First is the last part, with empty text
// for what is missing. The key includes which part was used, so a header value that
// looks like an address never spends the budget of that address.
func First(parts ...Key) Key { return Key{key.First(partsOf(parts)...)} }

// Global is one budget for all requests.
func Global() Key { return Key{key.Global[keyRequest]()} }

func partsOf(keys []Key) []key.Part[keyRequest] {
	parts := make([]key.Part[keyRequest], len(keys))
	for i, k := range keys {
		parts[i] = k.part
	}
	return parts
}

func textKey(name string, read reader) Key { return Key{key.Text[keyRequest](name, read)} }

// reader reads a part of a request that does not need the client's address.
type reader func(*http.Request) string

// Read returns the part's text.
func (f reader) Read(a keyRequest) string { return f(a.req) }

// headerValue returns the first value of a field. net/http keeps Host in
// [http.Request].Host.
func headerValue(r *http.Request, name string) string {
	if name == "Host" {
		return r.Host
	}
	if values := r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// compile returns a key that writes key texts, or an error if the key is incomplete.
func (k Key) compile() (*key.Key[keyRequest], error) { return k.part.Key(Address().part) }

// keyRequest is a request and its client, from which keys are read.
type keyRequest struct {
	req    *http.Request
	client *client
}

// Addr returns the client's address, the zero Addr if there is none.
func (a keyRequest) Addr() netip.Addr { return a.client.address(a.req) }

// client resolves the address of one request's client once, when it is first needed.
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
