// Package key builds key texts. The key of a request identifies the budget that the
// request spends. The middlewares, the interceptors and the service build the same text
// from the same parts, so that all interfaces to one store share the state of a key.
// For path and method the texts are the same only if the request has the canonical
// form, because the service normalizes both.
//
// # The text of a key
//
//   - A key of one part is the text of that part: 203.0.113.9, acme.
//   - The parts of a Join have a “+” between them, and a “\” before each “+” and “\” of
//     their own.
//   - A First is the text of the first alternative that the request has, or of the last
//     alternative if it has none. The name of the alternative and a “=” come before it
//     where the text could be that of another alternative: “header:x-api-key=acme”.
//     That is the case for every alternative but the first; for the first if it looks
//     like an address and another alternative is an address, or if it begins like a
//     text with a name. An address never has a name before it.
//   - A text that is longer than [MaxBytes], or looks like a hash, is replaced with its
//     hash: sha256=….
//
// For every key, two requests that differ in a part have different texts, except if
// SHA-256 has a collision.
package key

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Request is the input from which the parts of a key are read.
type Request interface {
	// Addr returns the client's address, or the zero Addr if the address is unknown.
	Addr() netip.Addr
}

// Reader reads one part of a key from a request.
type Reader[R Request] interface {
	// Read returns the part's text, which is empty if the request does not have the
	// part.
	Read(r R) string
}

// Part is one part of a key, or an expression of several parts. The zero value means
// the default part that is passed to [Part.Key]. A Part is immutable and comparable:
// equal values are the same part.
type Part[R Request] struct{ node *node[R] }

type kind uint8

const (
	textKind kind = iota
	funcKind
	addressKind
	sameKind
	wrongKind
	joinKind
	firstKind
)

// node is one part, or an expression with its sub-parts.
type node[R Request] struct {
	kind     kind
	name     string // name in a configuration; for wrongKind, the reason
	bits     int    // prefix length for IPv6; only for addressKind
	reader   Reader[R]
	function unsafe.Pointer // identifies the function; only for funcKind
	parts    []*node[R]
	prefixes [][]byte // name of each part followed by “=”; only for firstKind
}

// defaultBits is the prefix length for an IPv6 client address: a provider assigns a
// single client at least a /64 network.
const defaultBits = 64

// Address is the client's address; for IPv6, the network with the first v6Bits bits. If
// v6Bits is not 1 to 128, it is 64.
func Address[R Request](v6Bits int) Part[R] {
	if v6Bits < 1 || v6Bits > 128 {
		v6Bits = defaultBits
	}
	name := "ip"
	if v6Bits != defaultBits {
		name += "/" + strconv.Itoa(v6Bits)
	}
	return Part[R]{&node[R]{kind: addressKind, name: name, bits: v6Bits}}
}

// Text is the text that reader returns. The name must differ from the names of all
// other parts of a key.
func Text[R Request](name string, reader Reader[R]) Part[R] {
	return Part[R]{&node[R]{kind: textKind, name: name, reader: reader}}
}

// Func is the text that a function of the calling program returns. f is that function,
// and reader calls it. Functions are distinguished by their order in a key.
func Func[R Request, F any](f F, reader Reader[R]) Part[R] {
	return Part[R]{&node[R]{kind: funcKind, name: "func", reader: reader, function: functionValue(f)}}
}

// functionValue returns a pointer that identifies the function f. It is the same for two
// uses of one function or of one closure, and differs for two closures with different
// variables, even if they have the same code.
func functionValue[F any](f F) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&f)) }

// Global is a single budget that all requests share.
func Global[R Request]() Part[R] { return Part[R]{&node[R]{kind: sameKind, name: "same"}} }

// Wrong is an invalid part, for which [Part.Key] returns reason as an error.
func Wrong[R Request](reason string) Part[R] { return Part[R]{&node[R]{kind: wrongKind, name: reason}} }

// Join is several parts together. A request has a Join if it has all parts of it.
func Join[R Request](parts ...Part[R]) Part[R] { return compose(joinKind, parts) }

// First is the first of several parts that the request has, or the last part if the
// request has none of them.
func First[R Request](parts ...Part[R]) Part[R] { return compose(firstKind, parts) }

func compose[R Request](k kind, parts []Part[R]) Part[R] {
	n := &node[R]{kind: k}
	for _, p := range parts {
		n.parts = append(n.parts, p.node)
	}
	return Part[R]{n}
}

// FieldName returns the name of a part that is read from a named field of the request,
// such as “header:x-api-key”. The name is in lower case if net/http treats the
// field's name as case-insensitive.
func FieldName(kind, field string) string {
	if lower := strings.ToLower(field); http.CanonicalHeaderKey(lower) == http.CanonicalHeaderKey(field) {
		field = lower
	}
	return kind + ":" + nameEscaper.Replace(field)
}

// nameEscaper escapes the characters that have a meaning in the name of a part.
var nameEscaper = strings.NewReplacer(`\`, `\\`, `+`, `\+`, `=`, `\=`, `,`, `\,`, `(`, `\(`, `)`, `\)`)

// Key is an expression that is ready to build key texts. [Part.Key] creates it. It may
// be used concurrently.
type Key[R Request] struct {
	root   *node[R]
	leaves []string   // names of all parts without sub-parts
	funcs  []*node[R] // parts that are functions, in their order
}

// Key compiles p to a key. Each part of p that has the zero value is replaced with the
// default part zero. Key returns an error if p is invalid.
func (p Part[R]) Key(zero Part[R]) (k *Key[R], err error) {
	k = new(Key[R])
	k.root, err = k.resolve(p.node, zero.node)
	return k, err
}

func (k *Key[R]) resolve(n, zero *node[R]) (*node[R], error) {
	if n == nil {
		n = zero
	}
	switch {
	case n.kind == wrongKind:
		return nil, errors.New(n.name)
	case n.kind < wrongKind:
		return k.leaf(n), nil
	case len(n.parts) == 0:
		return nil, errors.New("Join and First need parts")
	case len(n.parts) == 1:
		return k.resolve(n.parts[0], zero)
	}
	whole := &node[R]{kind: n.kind}
	for _, p := range n.parts {
		resolved, err := k.resolve(p, zero)
		if err != nil {
			return nil, err
		}
		whole.parts = append(whole.parts, resolved)
		whole.prefixes = append(whole.prefixes, []byte(resolved.name+"="))
	}
	whole.name = whole.expression()
	return whole, nil
}

// leaf returns n, a part without sub-parts, and adds its name to k.leaves. If n is a
// function and k already has one, leaf instead uses a copy of n with a number appended
// to the name, such as name:2, so that names are unique.
func (k *Key[R]) leaf(n *node[R]) *node[R] {
	if n.kind == funcKind {
		if k.funcs = append(k.funcs, n); len(k.funcs) > 1 {
			n = &node[R]{kind: funcKind, name: n.name + ":" + strconv.Itoa(len(k.funcs)), reader: n.reader}
		}
	}
	k.leaves = append(k.leaves, n.name)
	return n
}

// expression returns the parts of n as they are written in a configuration, such as
// “ip+path” or “header:x-api-key, ip”, with parentheses around nested expressions.
func (n *node[R]) expression() string {
	texts := make([]string, len(n.parts))
	for i, p := range n.parts {
		if texts[i] = p.name; p.kind == firstKind || p.kind == joinKind && n.kind == joinKind {
			texts[i] = "(" + p.name + ")"
		}
	}
	return strings.Join(texts, map[kind]string{joinKind: "+", firstKind: ", "}[n.kind])
}

// String returns the expression as it is written in a configuration. Two keys with the
// same text have the same meaning, unless they contain functions.
func (k *Key[R]) String() string { return k.root.name }

// Kind returns a name for the parts of the key. It is part of the scope of a policy
// without a name, so that keys of different kinds do not share state even if their
// texts are equal. Kind is empty for the client's address, so that all interfaces share
// that state.
func (k *Key[R]) Kind() string {
	if k.root.kind == addressKind && k.root.bits == defaultBits {
		return ""
	}
	return k.String()
}

// Parts returns the names of the parts. The caller must not modify the slice.
func (k *Key[R]) Parts() []string { return k.leaves }

// Equal reports whether k and other build the same text for every request. Two
// functions count as equal only if they are the same part.
func (k *Key[R]) Equal(other *Key[R]) bool {
	return k.root.name == other.root.name && slices.Equal(k.funcs, other.funcs)
}

// Functions returns the addresses that identify the functions in the key, in their order.
func (k *Key[R]) Functions() []uintptr {
	functions := make([]uintptr, len(k.funcs))
	for i, n := range k.funcs {
		functions[i] = uintptr(n.function)
	}
	return functions
}

// Single reports whether the key has only one part.
func (k *Key[R]) Single() bool { return k.root.kind < joinKind }

// Block returns the prefix length for IPv6 networks. ok is true if the key is only an
// address.
func (k *Key[R]) Block() (v6Bits int, ok bool) { return k.root.bits, k.root.kind == addressKind }
