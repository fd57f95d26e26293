// Package key makes the keys of requests: whose budget a request spends, as text. The
// middlewares, the interceptors and the service write the same text for the same parts,
// so that interfaces over one store share what a key has spent. For path and method it
// is the same only if the request has the canonical form, because the service
// normalises both.
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
// Two requests that differ in a part have different keys, for every key but for
// collisions of SHA-256.
package key

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Request is what a key is made for.
type Request interface {
	// Addr returns the client's address, the zero Addr if it is unknown.
	Addr() netip.Addr
}

// Reader reads one part of a request.
type Reader[R Request] interface {
	// Read returns the part's text, which is empty if the request lacks the part.
	Read(r R) string
}

// Part is one part of a key or several: an expression. The zero value means the default
// that [Part.Key] is given. It is immutable and comparable: equal values are the same
// part.
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

// node is a part, or several with their parts below.
type node[R Request] struct {
	kind     kind
	name     string // as in a configuration; the reason if it is wrong
	bits     int    // of an IPv6 address
	reader   Reader[R]
	parts    []*node[R]
	prefixes [][]byte // of a First: the name of each part and a “=”
}

// defaultBits is the prefix length of the smallest IPv6 network that one client has.
const defaultBits = 64

// Address is the client's address: of IPv6 the network of its first v6Bits bits, 64 if
// v6Bits is outside of 1 to 128.
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

// Text is a part that reader reads. The name must differ from the name of every other
// part of a key.
func Text[R Request](name string, reader Reader[R]) Part[R] {
	return Part[R]{&node[R]{kind: textKind, name: name, reader: reader}}
}

// Func is a part that a function of the program returns. Functions are distinguished by
// their position in a key.
func Func[R Request](reader Reader[R]) Part[R] {
	return Part[R]{&node[R]{kind: funcKind, name: "func", reader: reader}}
}

// Same is one budget for all requests.
func Global[R Request]() Part[R] { return Part[R]{&node[R]{kind: sameKind, name: "same"}} }

// Wrong is an invalid part: [Part.Key] returns the reason.
func Wrong[R Request](reason string) Part[R] { return Part[R]{&node[R]{kind: wrongKind, name: reason}} }

// Join is all of several parts together. A request has it if it has all parts.
func Join[R Request](parts ...Part[R]) Part[R] { return compose(joinKind, parts) }

// First is the first of several parts that the request has, or the last part if it has
// none.
func First[R Request](parts ...Part[R]) Part[R] { return compose(firstKind, parts) }

func compose[R Request](k kind, parts []Part[R]) Part[R] {
	n := &node[R]{kind: k}
	for _, p := range parts {
		n.parts = append(n.parts, p.node)
	}
	return Part[R]{n}
}

// FieldName returns the name of a part that is the field called field of a request:
// “header:x-api-key”. Case is kept only for fields that HTTP does not know.
func FieldName(kind, field string) string {
	if lower := strings.ToLower(field); http.CanonicalHeaderKey(lower) == http.CanonicalHeaderKey(field) {
		field = lower
	}
	return kind + ":" + nameEscaper.Replace(field)
}

// nameEscaper escapes what has a meaning in the name of a part.
var nameEscaper = strings.NewReplacer(`\`, `\\`, `+`, `\+`, `=`, `\=`, `,`, `\,`, `(`, `\(`, `)`, `\)`)

// Key is an expression that is ready to make keys of requests. It is made by [Part.Key]
// and may be used concurrently.
type Key[R Request] struct {
	root   *node[R]
	leaves []string   // the names of its parts
	funcs  []*node[R] // the functions among them, as they were given
}

// Key returns p as a key, with zero in place of zero parts, or an error that states
// what is wrong with it.
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

// leaf is a part that is not made of others, numbered if it is a function.
func (k *Key[R]) leaf(n *node[R]) *node[R] {
	if n.kind == funcKind {
		if k.funcs = append(k.funcs, n); len(k.funcs) > 1 {
			n = &node[R]{kind: funcKind, name: n.name + ":" + strconv.Itoa(len(k.funcs)), reader: n.reader}
		}
	}
	k.leaves = append(k.leaves, n.name)
	return n
}

// expression is several parts as in a configuration: “ip+path” and “header:x-api-key,
// ip”, with parentheses where they are nested.
func (n *node[R]) expression() string {
	texts := make([]string, len(n.parts))
	for i, p := range n.parts {
		if texts[i] = p.name; p.kind == firstKind || p.kind == joinKind && n.kind == joinKind {
			texts[i] = "(" + p.name + ")"
		}
	}
	return strings.Join(texts, map[kind]string{joinKind: "+", firstKind: ", "}[n.kind])
}

// String returns the expression as in a configuration. Keys of the same text mean the
// same but for their functions.
func (k *Key[R]) String() string { return k.root.name }

// Kind names what the key is made of, for the state of a policy without a name: equal
// texts of different kinds must not meet. It is empty for the client's address, so that
// every interface shares that state.
func (k *Key[R]) Kind() string {
	if k.root.kind == addressKind && k.root.bits == defaultBits {
		return ""
	}
	return k.String()
}

// Parts returns the names of the parts. The caller must not change them.
func (k *Key[R]) Parts() []string { return k.leaves }

// Equal reports whether two keys make the same text of every request, as far as that
// can be known of functions.
func (k *Key[R]) Equal(other *Key[R]) bool {
	return k.root.name == other.root.name && slices.Equal(k.funcs, other.funcs)
}

// Single reports whether the key is one part.
func (k *Key[R]) Single() bool { return k.root.kind < joinKind }

// Block returns the prefix length of IPv6 networks if the key is an address and nothing
// else.
func (k *Key[R]) Block() (v6Bits int, ok bool) { return k.root.bits, k.root.kind == addressKind }
