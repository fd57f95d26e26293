package routing

import (
	"iter"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/key"
	"github.com/headgate/headgate/internal/urlpath"
)

// Key is an expression that defines the rate limit key of a request, such as “ip”,
// “header:X-API-Key, ip” or “ip+path”. It is created with [ParseKey]; the zero value is
// “ip”. It may be used concurrently.
//
// Commas separate alternatives. The first alternative whose parts are all present in
// the request is used. If there is none, the last alternative is used, with empty text
// for missing parts, so that all such requests share a key. “+” joins parts:
//
//	ip           the client's address; of IPv6 its /64
//	ip/48        the client's address; of IPv6 its /48; any number from 1 to 128
//	header:NAME  the value of a header field, see [Table.Select]
//	method       the method in upper case
//	host         the host in lower case, without port
//	path         the canonical path, see the package
//
// The text of a key is the same as in the library's middleware and interceptors;
// package internal/key defines it. Examples are 203.0.113.9, acme, 203.0.113.9+/cart
// and header:x-api-key=198.51.100.1. Two requests that differ in a part of the key
// never have the same key.
type Key struct{ key *key.Key[request] }

// request adapts a [Request] to the methods that package key needs.
type request struct{ *Request }

// Addr returns the client's address, or the zero Addr if the address is unknown.
func (r request) Addr() netip.Addr { return r.ClientAddr }

// header is the canonical name of a header field.
type header string

// Read returns the first value of the field, or an empty string if the field is
// missing.
func (h header) Read(r request) string {
	if values := r.Header[string(h)]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// requestPart is a part of a key that every request has.
type requestPart uint8

const (
	method requestPart = iota
	host
	path
)

// Read returns the text of the part for a request.
func (o requestPart) Read(r request) string {
	switch o {
	case method:
		return canonicalMethod(r.Method)
	case host:
		return canonicalHost(r.Host)
	default:
		return urlpath.Key(r.Path)
	}
}

// part is a part of an expression, or a whole alternative, together with its text.
type part struct {
	key.Part[request]
	text string
}

// Limits on the size of an expression.
const (
	maxAlternatives = 8
	maxParts        = 8
)

// addressKey is the key of the zero [Key]: the client's address.
var addressKey = mustKey(key.Part[request]{})

func mustKey(p key.Part[request]) *key.Key[request] {
	k, err := p.Key(key.Address[request](64))
	if err != nil {
		panic(err) // fails only for a function or a header field without a name
	}
	return k
}

// ParseKey parses an expression. If it is invalid, the error is a [*SyntaxError].
func ParseKey(text string) (Key, error) {
	var alternatives []part
	at, starts := 0, []int(nil)
	for one := range strings.SplitSeq(text, ",") {
		a, err := parseAlternative(text, one, at)
		if err != nil {
			return Key{}, err
		}
		if slices.ContainsFunc(alternatives, a.same) {
			return Key{}, keyError(text, one, at, "is listed twice")
		}
		alternatives, starts = append(alternatives, a), append(starts, at)
		at += len(one) + 1
	}
	if len(alternatives) > maxAlternatives {
		return Key{}, keyError(text, "", 0, "more than "+strconv.Itoa(maxAlternatives)+" alternatives")
	}
	for i, a := range alternatives[:len(alternatives)-1] {
		if a.isAlwaysPresent() {
			return Key{}, keyError(text, text[starts[i+1]:], starts[i+1], "is never used, because every request has "+a.text)
		}
	}
	return Key{mustKey(key.First(keysOf(alternatives)...))}, nil
}

func parseAlternative(text, one string, at int) (a part, err error) {
	var parts []part
	for word := range strings.SplitSeq(one, "+") {
		p, err := parsePart(text, word, at)
		if err != nil {
			return a, err
		}
		if slices.ContainsFunc(parts, p.same) {
			return a, keyError(text, word, at, "is listed twice")
		}
		parts = append(parts, p)
		at += len(word) + 1
	}
	if len(parts) > maxParts {
		return a, keyError(text, one, at-len(one)-1, "has more than "+strconv.Itoa(maxParts)+" parts")
	}
	a.Part = key.Join(keysOf(parts)...)
	a.text = mustKey(a.Part).String()
	return a, nil
}

func keysOf(parts []part) []key.Part[request] {
	keys := make([]key.Part[request], len(parts))
	for i, p := range parts {
		keys[i] = p.Part
	}
	return keys
}

// same reports whether two parts have the same meaning.
func (p part) same(q part) bool { return p.text == q.text }

// isAlwaysPresent reports whether every request has all parts of an alternative. Only
// method and path are always present.
func (p part) isAlwaysPresent() bool {
	for name := range strings.SplitSeq(p.text, "+") {
		if name != "method" && name != "path" {
			return false
		}
	}
	return true
}

// forwardingFields are header fields in which any client can send an arbitrary address.
var forwardingFields = []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip"}

func parsePart(text, word string, at int) (part, error) {
	trimmed := strings.TrimSpace(word)
	name, argument, has := strings.Cut(trimmed, ":")
	if bits, isBlock := strings.CutPrefix(trimmed, "ip/"); isBlock {
		n, err := strconv.Atoi(bits)
		if err != nil || n < 1 || n > 128 {
			return part{}, keyError(text, word, at, "is not an IPv6 prefix length; must be ip/1 to ip/128")
		}
		return leaf(key.Address[request](n)), nil
	}
	if name == "header" {
		return parseHeader(text, word, at, strings.TrimSpace(argument))
	}
	p, ok := known[name]
	switch {
	case trimmed == "":
		return part{}, keyError(text, "", at, "a part is missing; "+validParts)
	case has && !ok && slices.Contains(applicationParts, name):
		return part{}, keyError(text, word, at, "is not available to a proxy; "+validParts+`. The application sends such a key: `+
			`POST /v1/check {"policy":"NAME","key":"alice"}`)
	case !ok:
		return part{}, keyError(text, word, at, "is not a part of a request; "+validParts)
	case has:
		return part{}, keyError(text, word, at, "takes no name")
	}
	return leaf(p), nil
}

var known = map[string]key.Part[request]{
	"ip": key.Address[request](64), "method": key.Text[request]("method", method), "host": key.Text[request]("host", host),
	"path": key.Text[request]("path", path),
}

func leaf(p key.Part[request]) part { return part{p, mustKey(p).String()} }

// applicationParts are names of parts that other programs offer. The service does not
// know them, because it does not get the body of a request and verifies no token.
var applicationParts = []string{"body", "form", "json", "query", "param", "cookie", "jwt", "claim", "user", "metadata"}

const validParts = "must be ip, header:NAME, method, host or path"

func parseHeader(text, word string, at int, name string) (part, error) {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "":
		return part{}, keyError(text, word, at, "has no field name; write, for example, header:X-API-Key")
	case strings.Trim(name, headerNameChars) != "":
		return part{}, keyError(text, word, at, "is not a valid header field name")
	case canonical == "Host":
		return part{}, keyError(text, word, at, "is not supported; write host")
	case slices.Contains(forwardingFields, canonical):
		return part{}, keyError(text, word, at, "can be set by any client; use ip, with trusted_proxies for the addresses of your proxies")
	}
	return leaf(key.Text[request](key.FieldName("header", canonical), header(canonical))), nil
}

// keyError returns an error for a word of the expression text. The word begins at the
// byte offset at; the error does not include the spaces around it.
func keyError(text, word string, at int, reason string) error {
	at += len(word) - len(strings.TrimLeft(word, " \t"))
	return &SyntaxError{"key", text, max(at, 0), len(strings.TrimSpace(word)), reason}
}

// PrefersHeader reports whether the first alternative of the expression contains a
// header field that is not in trusted, a list of canonical names. A client that sends the
// field then chooses its key.
func (k Key) PrefersHeader(trusted []string) bool {
	first, _, _ := strings.Cut(k.String(), ",") // the name of a field contains no comma
	return hasUntrusted(first, trusted)
}

// UsesHeader is like [Key.PrefersHeader] for all alternatives of the expression.
func (k Key) UsesHeader(trusted []string) bool { return hasUntrusted(k.String(), trusted) }

// hasUntrusted reports whether an expression has a header field that is not in trusted.
func hasUntrusted(expression string, trusted []string) bool {
	for name := range headersIn(expression) {
		if !slices.Contains(trusted, name) {
			return true
		}
	}
	return false
}

// headersIn returns the canonical names of the header fields in an expression.
func headersIn(expression string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for part := range strings.FieldsFuncSeq(expression, func(r rune) bool { return r == ',' || r == '+' }) {
			name, isHeader := strings.CutPrefix(strings.TrimSpace(part), "header:")
			if isHeader && !yield(http.CanonicalHeaderKey(name)) {
				return
			}
		}
	}
}

func (k Key) orAddress() *key.Key[request] {
	if k.key == nil {
		return addressKey
	}
	return k.key
}

// String returns the expression in normal form.
func (k Key) String() string { return k.orAddress().String() }

// Of returns the key of a request.
func (k Key) Of(r *Request) string { return k.orAddress().Text(request{r}) }

// Append appends the key of a request to dst. If dst has enough capacity and the path
// is already canonical, it allocates nothing.
func (k Key) Append(dst []byte, r *Request) []byte { return k.orAddress().Append(dst, request{r}) }
