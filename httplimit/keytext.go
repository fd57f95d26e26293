package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/internal/keytext"
)

// asker is the request of which keys are made, and its client's address, once it was needed.
type asker struct {
	req      *http.Request
	resolver *clientaddr.Resolver
	addr     netip.Addr
	known    bool // addr was looked for
}

// address is the client's address, the zero Addr if there is none.
func (a *asker) address() netip.Addr {
	if !a.known {
		a.addr, a.known = a.resolver.Addr(a.req), true
	}
	return a.addr
}

// appendKey appends the text of a whole key, of bounded length.
func (a *asker) appendKey(dst []byte, p *part) []byte {
	begin := len(dst)
	dst, _ = a.append(dst, p)
	return keytext.Bounded(dst, begin)
}

// append appends the text of a part and reports whether the request has it.
func (a *asker) append(dst []byte, p *part) ([]byte, bool) {
	switch p.kind {
	case joinKind:
		return a.appendAll(dst, p.parts)
	case firstKind:
		return a.appendFirst(dst, p.parts)
	default:
		return a.appendSimple(dst, p)
	}
}

// appendSimple is append for a part that is not made of others. It does not keep dst, which may be on the stack.
func (a *asker) appendSimple(dst []byte, p *part) ([]byte, bool) {
	switch p.kind {
	case addressKind:
		addr := a.address()
		return clientaddr.AppendKey(dst, clientaddr.Group(addr, p.bits)), addr.IsValid()
	case sameKind:
		return dst, true
	default:
		text := a.text(p)
		return append(dst, text...), text != ""
	}
}

// text is the text of a part that the request has as it is; it is empty if the request lacks it.
func (a *asker) text(p *part) string {
	switch p.kind {
	case headerKind:
		return headerValue(a.req, p.name)
	case methodKind:
		return a.req.Method
	case pathKind:
		return a.req.URL.EscapedPath()
	case patternKind:
		return a.req.Pattern
	case funcKind:
		if text, ok := p.find(a.req); ok {
			return text
		}
	}
	return ""
}

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

// appendAll writes each part behind its length. It has them if it has one.
func (a *asker) appendAll(dst []byte, parts []*part) (_ []byte, has bool) {
	for _, p := range parts {
		begin := len(dst)
		var ok bool
		dst, ok = a.append(dst, p)
		dst = keytext.Joined(dst, begin)
		has = has || ok
	}
	return dst, has
}

// appendFirst writes the first part that is there behind its number.
func (a *asker) appendFirst(dst []byte, parts []*part) ([]byte, bool) {
	begin := len(dst)
	for i, p := range parts {
		var ok bool
		if dst, ok = a.append(keytext.AppendChoice(dst[:begin], i), p); ok {
			return dst, true
		}
	}
	return keytext.AppendChoice(dst[:begin], -1), false
}
