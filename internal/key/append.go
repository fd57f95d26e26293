package key

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"

	"github.com/headgate/headgate/clientaddr"
)

// Text returns the key text of request r. If the key has only one part, Text returns
// the part's text without copying it.
func (k *Key[R]) Text(r R) string {
	if k.root.reader != nil {
		return BoundString(k.root.reader.Read(r))
	}
	room := rooms.Get().(*[]byte)
	*room = k.Append((*room)[:0], r)
	text := string(*room)
	if cap(*room) <= maxRoom {
		rooms.Put(room)
	}
	return text
}

// rooms are buffers for key texts. A buffer on the stack would move to the heap,
// because the compiler cannot analyze calls of readers.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// maxRoom is the maximum size in bytes of a buffer that stays in the pool.
const maxRoom = 16 << 10

// Append appends the key text of request r to dst. It does not allocate if dst has
// enough capacity and the readers do not allocate.
func (k *Key[R]) Append(dst []byte, r R) []byte {
	begin := len(dst)
	dst, _ = k.root.append(dst, r)
	return Bound(dst, begin)
}

// append appends the text of part n to dst, and reports whether the request has the
// part.
func (n *node[R]) append(dst []byte, r R) ([]byte, bool) {
	switch n.kind {
	case addressKind:
		addr := r.Addr()
		return clientaddr.AppendKey(dst, clientaddr.Group(addr, n.bits)), addr.IsValid()
	case sameKind:
		return dst, true
	case joinKind:
		return n.appendAll(dst, r)
	case firstKind:
		return n.appendFirst(dst, r)
	}
	text := n.reader.Read(r)
	return append(dst, text...), text != ""
}

func (n *node[R]) appendAll(dst []byte, r R) (_ []byte, has bool) {
	has = true
	for i, p := range n.parts {
		if i > 0 {
			dst = append(dst, '+')
		}
		begin, ok := len(dst), false
		dst, ok = p.append(dst, r)
		dst, has = escape(dst, begin), has && ok
	}
	return dst, has
}

func (n *node[R]) appendFirst(dst []byte, r R) (_ []byte, has bool) {
	begin, chosen := len(dst), 0
	for i, p := range n.parts {
		chosen = i
		if dst, has = p.append(dst[:begin], r); has {
			break
		}
	}
	if n.ambiguous(chosen, dst[begin:]) {
		dst = slices.Insert(dst, begin, n.prefixes[chosen]...)
	}
	return dst, has
}

// ambiguous reports whether the text of a First must be preceded by the name of the
// chosen alternative. Every alternative except the first has a name before its text. An
// address never has one: if any alternative is an address, every other alternative
// whose text looks like an address gets its name. The text for an unknown address also
// counts as an address; only the last alternative can write it. The first alternative
// gets its name only in that case, or if its text begins like a text with a name.
func (n *node[R]) ambiguous(chosen int, text []byte) bool {
	isAddress := func(p *node[R]) bool { return p.kind == addressKind }
	begins := func(prefix []byte) bool { return bytes.HasPrefix(text, prefix) }
	switch {
	case isAddress(n.parts[chosen]):
		return false
	case chosen > 0:
		return true
	}
	return slices.ContainsFunc(n.parts, isAddress) && looksLikeAddress(text) || slices.ContainsFunc(n.prefixes, begins)
}

// unknown is the text for an unknown address.
var unknown = clientaddr.AppendKey(nil, netip.Prefix{})

// looksLikeAddress reports whether text is the text of an address or of a network.
func looksLikeAddress(text []byte) bool {
	if bytes.IndexByte(text, '.') < 0 && bytes.IndexByte(text, ':') < 0 {
		return bytes.Equal(text, unknown) // the case of most texts, for which parsing would allocate an error
	}
	s := string(text)
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}
