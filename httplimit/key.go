package httplimit

import (
	"net/http"
	"strconv"
	"strings"
)

// Key says whose budget a request spends: an address, a header field's value, a path, or several of these. Different parts never
// run into each other. A request that lacks the part, or has an empty one, shares one budget with all others that do; see
// [First].
//
// Nothing is normalised: “é” and “e”, upper and lower case, are different keys, and so is each invalid byte. A key that is longer
// than 1 KiB is replaced by “sha256:” and its SHA-256, and so is one that begins like that. The state of a key made of one part
// is what a [headgate.Limiter] of the same policy calls by that part's text (for an address see [clientaddr.AppendKey]), if the
// policy has a name.
//
// The zero value means [Address]. A Key may be used concurrently and in any number of charges.
type Key struct{ part *part }

// kind is where a part comes from.
type kind uint8

const (
	addressKind kind = iota
	headerKind
	methodKind
	pathKind
	patternKind
	funcKind
	joinKind
	firstKind
	sameKind
)

// part is one key or a part of one. It does not change once made.
type part struct {
	kind  kind
	bits  int                                // of an address
	name  string                             // of a header field, as net/http has it
	find  func(*http.Request) (string, bool) // of Func
	parts []*part                            // of Join and First
}

// defaultBits of an IPv6 address are what one client holds at least.
const defaultBits = 64

var address = &part{kind: addressKind, bits: defaultBits}

func (k Key) orAddress() *part {
	if k.part == nil {
		return address
	}
	return k.part
}

// Address is the client's address; of IPv6 its /64.
func Address() Key { return Key{address} }

// AddressBlock is the client's address, of IPv6 its first v6Bits bits: a second charge with 48 bounds who holds many /64. Outside
// 1 to 128 it is that of [Address].
func AddressBlock(v6Bits int) Key {
	if v6Bits < 1 || v6Bits > 128 {
		v6Bits = defaultBits
	}
	return Key{&part{kind: addressKind, bits: v6Bits}}
}

// Header is the first value of a header field. Clients choose it: alone it limits only those who keep to it, and whoever invents
// values has a budget for each.
func Header(name string) Key {
	return Key{&part{kind: headerKind, name: http.CanonicalHeaderKey(name)}}
}

// Method is the request's method.
func Method() Key { return Key{&part{kind: methodKind}} }

// Path is the path of the request's URL, as the client wrote it: “/a” and “/%61” are two. Bytes that no URL may hold count as
// their escapes. See [Pattern].
func Path() Key { return Key{&part{kind: pathKind}} }

// Pattern is the pattern of net/http's mux that matched, or chi's, which the middleware must stand behind to know.
func Pattern() Key { return Key{&part{kind: patternKind}} }

// Func is what f finds: a user from the request's context, say. It reports false if there is none. It may be called concurrently.
func Func(f func(*http.Request) (string, bool)) Key { return Key{&part{kind: funcKind, find: f}} }

// Join is all of several parts together: a path and a user. A request has it if it has one of them, so to have the address in
// place of a missing user, say Join(Path(), First(user, Address())), not First(Join(Path(), user), Address()).
func Join(parts ...Key) Key { return Key{&part{kind: joinKind, parts: partsOf(parts)}} }

// First is the first of several parts that the request has: an API key, else the address. Which part it was belongs to the key,
// so a header field's value that looks like an address never spends the address' budget.
func First(parts ...Key) Key { return Key{&part{kind: firstKind, parts: partsOf(parts)}} }

// Same is one budget for all requests.
func Same() Key { return Key{&part{kind: sameKind}} }

func partsOf(keys []Key) []*part {
	parts := make([]*part, len(keys))
	for i, k := range keys {
		parts[i] = k.orAddress()
	}
	return parts
}

// wrong says what a key lacks to work; it is empty if it lacks nothing.
func (p *part) wrong() string {
	switch p.kind {
	case headerKind:
		if p.name == "" {
			return "Header has no name"
		}
	case funcKind:
		if p.find == nil {
			return "Func has no function"
		}
	case joinKind, firstKind:
		if len(p.parts) == 0 {
			return "Join and First need parts"
		}
		for _, inner := range p.parts {
			if why := inner.wrong(); why != "" {
				return why
			}
		}
	}
	return ""
}

// simple reports whether the key is not made of others.
func (p *part) simple() bool { return p.kind != joinKind && p.kind != firstKind }

// shape tells what a key is made of in words, equal for equal keys. Functions cannot be told apart.
func (p *part) shape() string {
	switch p.kind {
	case addressKind:
		return "address/" + strconv.Itoa(p.bits)
	case headerKind:
		return "header " + p.name
	case joinKind, firstKind:
		inner := make([]string, len(p.parts))
		for i, q := range p.parts {
			inner[i] = q.shape()
		}
		return [...]string{joinKind: "join", firstKind: "first"}[p.kind] + "(" + strings.Join(inner, ", ") + ")"
	default:
		return [...]string{methodKind: "method", pathKind: "path", patternKind: "pattern", funcKind: "func", sameKind: "same"}[p.kind]
	}
}

// equal reports whether two keys give the same text for every request, as far as that can be told.
func (p *part) equal(q *part) bool {
	if p == q {
		return true
	}
	if p.kind != q.kind || p.kind == funcKind || p.bits != q.bits || p.name != q.name || len(p.parts) != len(q.parts) {
		return false
	}
	for i := range p.parts {
		if !p.parts[i].equal(q.parts[i]) {
			return false
		}
	}
	return true
}
