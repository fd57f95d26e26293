package routing

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/key"
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
// The text of a key is that of package internal/key, as the middlewares and interceptors of the library write it: 203.0.113.9, acme,
// 203.0.113.9+/cart, header:x-api-key=198.51.100.1. No two requests that differ in a part share a key.
type Key struct{ key *key.Key[request] }

// request reads the parts of a request.
type request struct{ *Request }

// Addr returns the client's address, the zero Addr if it is not known.
func (r request) Addr() netip.Addr { return r.ClientAddr }

// header is a header field by its canonical name.
type header string

// Read returns the field's first value.
func (h header) Read(r request) string {
	if values := r.Header[string(h)]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// other is what every request has.
type other uint8

const (
	method other = iota
	host
	path
)

// Read returns the part's text.
func (o other) Read(r request) string {
	switch o {
	case method:
		return canonicalMethod(r.Method)
	case host:
		return canonicalHost(r.Host)
	default:
		_, lenient := readings(r.Path)
		return lenient
	}
}

// part is one part of an expression, or an alternative, and how it is written.
type part struct {
	key.Part[request]
	text string
}

// Bounds on an expression.
const (
	mostAlternatives = 8
	mostParts        = 8
)

// byAddress is the zero [Key].
var byAddress = made(key.Part[request]{})

func made(p key.Part[request]) *key.Key[request] {
	k, err := p.Key(key.Address[request](64))
	if err != nil {
		panic(err) // there is no function and no header field without a name
	}
	return k
}

// ParseKey reads an expression.
func ParseKey(text string) (Key, error) {
	var alternatives []part
	at, starts := 0, []int(nil)
	for one := range strings.SplitSeq(text, ",") {
		a, err := parseAlternative(text, one, at)
		if err != nil {
			return Key{}, err
		}
		if slices.ContainsFunc(alternatives, a.same) {
			return Key{}, wrongKey(text, one, at, "stands here twice")
		}
		alternatives, starts = append(alternatives, a), append(starts, at)
		at += len(one) + 1
	}
	if len(alternatives) > mostAlternatives {
		return Key{}, wrongKey(text, "", 0, "it has more than "+strconv.Itoa(mostAlternatives)+" alternatives")
	}
	for i, a := range alternatives[:len(alternatives)-1] {
		if a.certain() {
			return Key{}, wrongKey(text, text[starts[i+1]:], starts[i+1], "is never looked at: every request has "+a.text)
		}
	}
	return Key{made(key.First(keysOf(alternatives)...))}, nil
}

func parseAlternative(text, one string, at int) (a part, err error) {
	var parts []part
	for word := range strings.SplitSeq(one, "+") {
		p, err := parsePart(text, word, at)
		if err != nil {
			return a, err
		}
		if slices.ContainsFunc(parts, p.same) {
			return a, wrongKey(text, word, at, "stands here twice")
		}
		parts = append(parts, p)
		at += len(word) + 1
	}
	if len(parts) > mostParts {
		return a, wrongKey(text, one, at-len(one)-1, "has more than "+strconv.Itoa(mostParts)+" parts")
	}
	a.Part = key.Join(keysOf(parts)...)
	a.text = made(a.Part).String()
	return a, nil
}

func keysOf(parts []part) []key.Part[request] {
	keys := make([]key.Part[request], len(parts))
	for i, p := range parts {
		keys[i] = p.Part
	}
	return keys
}

// same reports whether two parts mean the same.
func (p part) same(q part) bool { return p.text == q.text }

// certain reports whether every request has all parts of an alternative.
func (p part) certain() bool {
	for name := range strings.SplitSeq(p.text, "+") {
		if name != "method" && name != "path" {
			return false
		}
	}
	return true
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
		return leaf(key.Address[request](n)), nil
	}
	if name == "header" {
		return parseHeader(text, word, at, strings.TrimSpace(argument))
	}
	p, ok := known[name]
	switch {
	case trimmed == "":
		return part{}, wrongKey(text, "", at, "something is missing here: "+accepted)
	case !ok:
		return part{}, wrongKey(text, word, at, "is nothing that a request has; "+accepted)
	case has:
		return part{}, wrongKey(text, word, at, "takes no name behind it")
	}
	return leaf(p), nil
}

var known = map[string]key.Part[request]{
	"ip": key.Address[request](64), "method": key.Text[request]("method", method), "host": key.Text[request]("host", host),
	"path": key.Text[request]("path", path),
}

func leaf(p key.Part[request]) part { return part{p, made(p).String()} }

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
	return leaf(key.Text[request](key.FieldName("header", canonical), header(canonical))), nil
}

// wrongKey points at a word of an expression, without the blanks around it.
func wrongKey(text, word string, at int, reason string) error {
	at += len(word) - len(strings.TrimLeft(word, " \t"))
	return &SyntaxError{"key", text, max(at, 0), len(strings.TrimSpace(word)), reason}
}

func (k Key) orAddress() *key.Key[request] {
	if k.key == nil {
		return byAddress
	}
	return k.key
}

// String is the expression as it would be written.
func (k Key) String() string { return k.orAddress().String() }

// Of is the key of a request.
func (k Key) Of(r *Request) string { return k.orAddress().Text(request{r}) }

// Append appends the key of a request to dst. With room in dst it allocates nothing for a path that is written as it is read.
func (k Key) Append(dst []byte, r *Request) []byte { return k.orAddress().Append(dst, request{r}) }
