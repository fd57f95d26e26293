package httplimit

import "net/http"

// Key says whose budget a request spends: an address, a header field's value, a path, or several of these. Different parts never
// run into each other. A request that lacks the part shares one budget with all others that lack it; see [First].
type Key struct{}

// Address is the client's address; of IPv6 its /64.
func Address() Key { return Key{} }

// AddressBlock is the client's address, of IPv6 its first v6Bits bits: a second charge with 48 bounds who holds many /64.
func AddressBlock(v6Bits int) Key { return Key{} }

// Header is the first value of a header field.
func Header(name string) Key { return Key{} }

// Method is the request's method.
func Method() Key { return Key{} }

// Path is the path of the request's URL, as the client wrote it.
func Path() Key { return Key{} }

// Pattern is the pattern of net/http's mux that matched, which the middleware must stand behind to know.
func Pattern() Key { return Key{} }

// Func is what f finds: a user from the request's context, say. It reports false if there is none.
func Func(f func(*http.Request) (string, bool)) Key { return Key{} }

// Join is all of several parts together: a path and a user.
func Join(parts ...Key) Key { return Key{} }

// First is the first of several parts that the request has: an API key, else the address.
func First(parts ...Key) Key { return Key{} }

// Same is one budget for all requests.
func Same() Key { return Key{} }
