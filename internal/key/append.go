package key

import (
	"bytes"
	"net/netip"
	"slices"
	"sync"

	"github.com/headgate/headgate/clientaddr"
)

// Text returns the key of a request. A key of one text is returned without a copy.
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

// rooms are buffers for keys: one on the stack would move to the heap, because the
// compiler does not see through readers.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// maxRoom bounds a buffer that is kept, in bytes.
const maxRoom = 16 << 10

// Append appends the key of a request. It does not allocate if dst has room and reading
// the request's parts does not.
func (k *Key[R]) Append(dst []byte, r R) []byte {
	begin := len(dst)
	dst, _ = k.root.append(dst, r)
	return Bound(dst, begin)
}

// append appends the text of a part and reports whether the request has the part.
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

// ambiguous reports whether the text of a First needs the name of the chosen
// alternative before it. An address never needs its name: if an alternative is an
// address, every other alternative's text that looks like an address has a name. The
// text of an unknown address counts as one that looks like an address, and only the
// last alternative can write it. The first alternative has no name otherwise, unless it
// begins like a text with a name.
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

// unknown is the text of an address that is unknown.
var unknown = clientaddr.AppendKey(nil, netip.Prefix{})

// looksLikeAddress reports whether a text is one of an address, or of a network.
func looksLikeAddress(text []byte) bool {
	if bytes.IndexByte(text, '.') < 0 && bytes.IndexByte(text, ':') < 0 {
		return bytes.Equal(text, unknown) // most texts: parsing them would allocate an error
	}
	s := string(text)
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}
