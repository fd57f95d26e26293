package routing

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/clientaddr"
)

// Key says whose budget a request spends: “ip”, “header:X-API-Key, ip”, “ip+path”. It is made with [ParseKey]; the zero value is
// “ip”. It may be used concurrently.
//
// Alternatives stand between commas: the first of which the request has all parts. If it has none, the last, with nothing for the
// parts that are missing: those requests share a budget. Parts are joined by “+”:
//
//	ip           the client's address; of IPv6 its /64
//	ip/48        the same; of IPv6 its /48, and so for every number from 1 to 128
//	header:NAME  the first value of a header field
//	method       the method in upper case
//	host         the host in lower case, without port
//	path         the path as it is read, see the package
//
// # The text of a key
//
// A key of one part is that part as it is: 203.0.113.9, acme. So a check that a program sends itself can name the same budget. Parts
// that are joined have a + between them, and a + or \ in them behind a \. Whatever could be taken for a key made otherwise by the
// same expression begins with how it was made and a =: “header:authorization=acme”, if header:Authorization is not the first
// alternative, or “header:x-api-key=203.0.113.9” where that could be an address, too. A key longer than 512 bytes is told by its
// hash: “sha256=…”. No two requests that differ in a part share a key.
type Key struct {
	alternatives []alternative
}

type alternative struct {
	text  string // as it would be written
	parts []part
}

// part is one thing that a request has, or has not.
type part struct {
	kind  kind
	field string // of a header, canonical
	bits  int    // of an IPv6 address
}

type kind uint8

const (
	address kind = iota
	header
	method
	host
	path
)

// Bounds on an expression, and on the text that it makes.
const (
	mostAlternatives = 8
	mostParts        = 8
	longestKey       = 512
	hashed           = "sha256="
	unknownAddress   = "unknown"
)

var byAddress = alternative{text: "ip", parts: []part{{kind: address, bits: 64}}}

// ParseKey reads an expression.
func ParseKey(text string) (Key, error) {
	var k Key
	at, starts := 0, []int(nil)
	for one := range strings.SplitSeq(text, ",") {
		a, err := parseAlternative(text, one, at)
		if err != nil {
			return Key{}, err
		}
		if slices.ContainsFunc(k.alternatives, func(b alternative) bool { return a.text == b.text }) {
			return Key{}, wrongKey(text, one, at, "stands here twice")
		}
		k.alternatives, starts = append(k.alternatives, a), append(starts, at)
		at += len(one) + 1
	}
	if len(k.alternatives) > mostAlternatives {
		return Key{}, wrongKey(text, "", 0, "it has more than "+strconv.Itoa(mostAlternatives)+" alternatives")
	}
	for i, a := range k.alternatives[:len(k.alternatives)-1] {
		if a.certain() {
			return Key{}, wrongKey(text, text[starts[i+1]:], starts[i+1], "is never looked at: every request has "+a.text)
		}
	}
	return k, nil
}

func parseAlternative(text, one string, at int) (a alternative, err error) {
	for word := range strings.SplitSeq(one, "+") {
		p, err := parsePart(text, word, at)
		if err != nil {
			return a, err
		}
		if slices.Contains(a.parts, p) {
			return a, wrongKey(text, word, at, "stands here twice")
		}
		a.parts = append(a.parts, p)
		at += len(word) + 1
	}
	if len(a.parts) > mostParts {
		return a, wrongKey(text, one, at-len(one)-1, "has more than "+strconv.Itoa(mostParts)+" parts")
	}
	names := make([]string, len(a.parts))
	for i, p := range a.parts {
		names[i] = p.String()
	}
	a.text = strings.Join(names, "+")
	return a, nil
}

// told are fields in which anybody can write anybody's address.
var told = []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip"}

func parsePart(text, word string, at int) (part, error) {
	trimmed := strings.TrimSpace(word)
	name, argument, has := strings.Cut(trimmed, ":")
	if bits, isBlock := strings.CutPrefix(trimmed, "ip/"); isBlock {
		n, err := strconv.Atoi(bits)
		if err != nil || n < 1 || n > 128 {
			return part{}, wrongKey(text, word, at, "is no block of addresses; accepted are ip/1 to ip/128, of IPv6")
		}
		return part{kind: address, bits: n}, nil
	}
	if name == "header" {
		return parseHeader(text, word, at, strings.TrimSpace(argument))
	}
	known := map[string]part{"ip": byAddress.parts[0], "method": {kind: method}, "host": {kind: host}, "path": {kind: path}}
	p, ok := known[name]
	switch {
	case trimmed == "":
		return part{}, wrongKey(text, "", at, "something is missing here: "+accepted)
	case !ok:
		return part{}, wrongKey(text, word, at, "is nothing that a request has; "+accepted)
	case has:
		return part{}, wrongKey(text, word, at, "takes no name behind it")
	}
	return p, nil
}

const accepted = "there are ip, header:NAME, method, host and path"

func parseHeader(text, word string, at int, name string) (part, error) {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "":
		return part{}, wrongKey(text, word, at, "lacks a field's name: header:X-API-Key")
	case strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!#$%&'*^`|~") != "":
		return part{}, wrongKey(text, word, at, "is no field's name")
	case canonical == "Host":
		return part{}, wrongKey(text, word, at, "is written host")
	case slices.Contains(told, canonical):
		return part{}, wrongKey(text, word, at, "is whatever a client writes there; ip is its address, and trusted_proxies says who may tell it")
	}
	return part{kind: header, field: canonical}, nil
}

// wrongKey points at a word of an expression, without the blanks around it.
func wrongKey(text, word string, at int, reason string) error {
	at += len(word) - len(strings.TrimLeft(word, " \t"))
	return &SyntaxError{"key", text, max(at, 0), len(strings.TrimSpace(word)), reason}
}

// String is the part as it would be written.
func (p part) String() string {
	switch p.kind {
	case header:
		return "header:" + lower(p.field)
	case method:
		return "method"
	case host:
		return "host"
	case path:
		return "path"
	}
	if p.bits == 64 {
		return "ip"
	}
	return "ip/" + strconv.Itoa(p.bits)
}

// String is the expression as it would be written.
func (k Key) String() string {
	var texts []string
	for _, a := range k.all() {
		texts = append(texts, a.text)
	}
	return strings.Join(texts, ", ")
}

func (k Key) all() []alternative {
	if len(k.alternatives) == 0 {
		return []alternative{byAddress}
	}
	return k.alternatives
}

// certain reports whether every request has all parts.
func (a *alternative) certain() bool {
	return !slices.ContainsFunc(a.parts, func(p part) bool { return p.kind == header || p.kind == host || p.kind == address })
}

// alone reports whether it is an address and nothing else.
func (a *alternative) alone() bool { return len(a.parts) == 1 && a.parts[0].kind == address }

// Of is the key of a request.
func (k Key) Of(r *Request) string {
	var buf [128]byte
	return string(k.Append(buf[:0], r))
}

// Append appends the key of a request to dst. With room in dst it allocates nothing for a path that is written as it is read.
func (k Key) Append(dst []byte, r *Request) []byte {
	if len(k.alternatives) == 0 {
		return byAddress.parts[0].append(dst, r)
	}
	chosen := len(k.alternatives) - 1
	for i := range k.alternatives[:chosen] {
		if k.alternatives[i].in(r) {
			chosen = i
			break
		}
	}
	start := len(dst)
	dst = k.alternatives[chosen].append(dst, r)
	if len(k.alternatives) > 1 && k.marks(chosen, dst[start:]) {
		dst = slices.Insert(dst, start, []byte(k.alternatives[chosen].text+"=")...)
	}
	if made := dst[start:]; len(made) > longestKey || strings.HasPrefix(string(made[:min(len(made), len(hashed))]), hashed) {
		sum := sha256.Sum256(made)
		dst = append(dst[:start], hashed...)
		dst = hex.AppendEncode(dst, sum[:])
	}
	return dst
}

// marks reports whether made must say by which alternative it was made.
func (k Key) marks(chosen int, made []byte) bool {
	switch {
	case k.alternatives[chosen].alone():
		return k.otherBlocks(chosen)
	case chosen > 0 || len(made) == 0:
		return true
	}
	for i := range k.alternatives {
		a := &k.alternatives[i]
		if a.alone() && looksLikeAddress(made) {
			return true
		}
		if len(made) > len(a.text) && made[len(a.text)] == '=' && string(made[:len(a.text)]) == a.text {
			return true
		}
	}
	return false
}

// otherBlocks reports whether an alternative before this one is an address, too: “ip/48, ip” cannot be told apart by their text.
func (k Key) otherBlocks(chosen int) bool {
	return slices.ContainsFunc(k.alternatives[:chosen], func(a alternative) bool { return a.alone() })
}

// looksLikeAddress reports whether a key could be that of an address, or is nearly one.
func looksLikeAddress(made []byte) bool {
	if string(made) == unknownAddress {
		return true
	}
	if bytes.IndexByte(made, '.') < 0 && bytes.IndexByte(made, ':') < 0 {
		return false // as most do: no need to allocate an error for them
	}
	s := string(made)
	_, err := netip.ParseAddr(s)
	_, err2 := netip.ParsePrefix(s)
	return err == nil || err2 == nil
}

// in reports whether the request has all parts.
func (a *alternative) in(r *Request) bool {
	for i := range a.parts {
		if !a.parts[i].in(r) {
			return false
		}
	}
	return true
}

func (p *part) in(r *Request) bool {
	switch p.kind {
	case address:
		return r.ClientAddr.IsValid()
	case header:
		return fieldOf(r, p.field) != ""
	case host:
		return r.Host != ""
	}
	return true
}

func fieldOf(r *Request, name string) string {
	if values := r.Header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// append writes the parts, each apart from the next.
func (a *alternative) append(dst []byte, r *Request) []byte {
	if len(a.parts) == 1 {
		return a.parts[0].append(dst, r)
	}
	for i := range a.parts {
		if i > 0 {
			dst = append(dst, '+')
		}
		start := len(dst)
		dst = escape(a.parts[i].append(dst, r), start)
	}
	return dst
}

// escape puts a \ before every + and \ from start on.
func escape(b []byte, start int) []byte {
	for i := start; i < len(b); i++ {
		if b[i] == '+' || b[i] == '\\' {
			b = slices.Insert(b, i, '\\')
			i++
		}
	}
	return b
}

func (p *part) append(dst []byte, r *Request) []byte {
	switch p.kind {
	case header:
		return append(dst, fieldOf(r, p.field)...)
	case method:
		return append(dst, canonicalMethod(r.Method)...)
	case host:
		return append(dst, canonicalHost(r.Host)...)
	case path:
		_, lenient := readings(r.Path)
		return append(dst, lenient...)
	}
	if !r.ClientAddr.IsValid() {
		return append(dst, unknownAddress...)
	}
	return clientaddr.AppendKey(dst, clientaddr.Group(r.ClientAddr, p.bits))
}
