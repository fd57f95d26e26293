package routing

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/internal/urlpath"
)

// Host is a pattern that matches hosts: a host name, “*.example.com” for all names
// below example.com at any depth, or “*” for all hosts. The zero value matches every
// host. Case, port and a trailing dot are ignored.
type Host struct{ text string }

// ParseHost parses a host pattern. If it is invalid, the error is a [*SyntaxError].
func ParseHost(text string) (Host, error) {
	fail := func(offset, length int, reason string) (Host, error) {
		return Host{}, &SyntaxError{"host", text, offset, length, reason}
	}
	if text == "" {
		return fail(0, 0, "is empty; omit it to match every host")
	}
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '*' && i > 0:
			return fail(i, 1, "is only valid at the beginning, as in *.example.com")
		case r == '/':
			return fail(i, len(text)-i, "is not part of a host; write the path in path")
		case r == ':' && text[0] != '[':
			return fail(i, len(text)-i, "is not part of a pattern; omit the port")
		case r > '~':
			return fail(i, size, "is not ASCII; write the name in Punycode: xn--…")
		case r <= ' ':
			return fail(i, 1, "is not valid in a host")
		}
	}
	h := Host{urlpath.Lower(strings.TrimRight(text, "."))}
	switch {
	case h.text == "*":
		return Host{}, nil
	case h.text == "":
		return fail(0, len(text), "is not a host")
	case h.text[0] == '*' && !strings.HasPrefix(h.text, "*."):
		return fail(0, len(text), "is not a pattern; write *.example.com for all names below example.com")
	case h.text[0] == '[':
		if addr, err := netip.ParseAddr(strings.Trim(h.text, "[]")); err != nil || h.text[len(h.text)-1] != ']' || !addr.Is6() {
			return fail(0, len(text), "is not an IPv6 address; write [2001:db8::1], without a port")
		}
		h.text = canonicalHost(h.text)
	}
	return h, nil
}

// String returns the pattern in normal form, which is “*” for the zero value.
func (h Host) String() string {
	if h.text == "" {
		return "*"
	}
	return h.text
}

// matches reports whether the pattern matches host, which must be in canonical form.
func (h Host) matches(host string) bool {
	switch {
	case h.text == "":
		return true
	case h.text[0] == '*':
		return len(host) > len(h.text)-1 && strings.HasSuffix(host, h.text[1:])
	}
	return host == h.text
}

// covers reports whether h matches every host that the pattern other matches.
func (h Host) covers(other Host) bool {
	if other.text != "" && other.text[0] == '*' && h.text != "" {
		return h.text[0] == '*' && strings.HasSuffix(other.text[1:], h.text[1:])
	}
	return h.text == "" || other.text != "" && h.matches(other.text)
}

// Path is a pattern that matches paths. It consists of literal segments, “*” for one
// segment, and “**” for any number of segments, including none. The zero value matches
// every path.
type Path struct {
	segments []string
	isSet    bool // false for the zero value
}

// The wildcards in a [Path].
const (
	oneSegment  = "*"
	anySegments = "**"
)

// maxSegments is the maximum number of segments in a pattern.
const maxSegments = 32

// ParsePath parses a path pattern such as /login, /api/** or /users/*/orders. If it is
// invalid, the error is a [*SyntaxError].
func ParsePath(text string) (Path, error) {
	fail := func(offset, length int, reason string) (Path, error) {
		return Path{}, &SyntaxError{"path", text, offset, length, reason}
	}
	if text == "" || text[0] != '/' {
		return fail(0, len(text), "must begin with a slash")
	}
	if i := strings.IndexAny(text, "?#%\\;"); i >= 0 {
		return fail(i, 1, "is not valid in a pattern; write the decoded path without a query")
	}
	p := Path{isSet: true}
	if text == "/" {
		return p, nil
	}
	at := 1
	for segment := range strings.SplitSeq(strings.TrimSuffix(text[1:], "/"), "/") {
		switch {
		case segment == "":
			return fail(at-1, min(2, len(text)-at+1), "is an empty segment")
		case segment == "." || segment == "..":
			return fail(at, len(segment), "is resolved before paths are matched; omit it")
		case strings.Contains(segment, "*") && segment != oneSegment && segment != anySegments:
			return fail(at, len(segment), "mixes text and *; * matches one whole segment, ** any number of segments")
		case strings.IndexFunc(segment, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
			return fail(at, len(segment), "contains a control character")
		}
		p.segments = append(p.segments, urlpath.Lower(segment))
		at += len(segment) + 1
	}
	if len(p.segments) > maxSegments {
		return fail(0, 0, "must have at most 32 segments")
	}
	p.segments = normalize(p.segments)
	return p, nil
}

// normalize reorders each group of adjacent wildcards: first every “*”, then a single
// “**” if the group has any.
func normalize(segments []string) []string {
	var out []string
	deep := false
	for _, s := range segments {
		switch {
		case s == anySegments:
			deep = true
			continue
		case s != oneSegment && deep:
			out, deep = append(out, anySegments), false
		}
		out = append(out, s)
	}
	if deep {
		out = append(out, anySegments)
	}
	return out
}

// String returns the pattern in normal form, which is “/**” for the zero value.
func (p Path) String() string {
	if !p.isSet {
		return "/**"
	}
	return "/" + strings.Join(p.segments, "/")
}

// matches reports whether the pattern matches path, which is a reading.
// If the segments after a “**” do not match, it tries again with one more
// segment for the “**”. The running time is therefore at most proportional to the
// number of segments of the path times the number of segments of the pattern.
func (p Path) matches(path string) bool {
	if !p.isSet {
		return true
	}
	rest, again, at, from := path[1:], "", 0, -1
	for rest != "" {
		segment, after, _ := strings.Cut(rest, "/")
		switch {
		case at < len(p.segments) && p.segments[at] == anySegments:
			from, again = at, rest
			at++
		case at < len(p.segments) && (p.segments[at] == segment || p.segments[at] == oneSegment):
			rest = after
			at++
		case from >= 0:
			_, again, _ = strings.Cut(again, "/")
			rest, at = again, from+1
		default:
			return false
		}
	}
	return at == len(p.segments) || at == len(p.segments)-1 && p.segments[at] == anySegments
}

// covers reports whether p matches every path that the pattern other matches. The
// result true is always correct. The result false may be wrong if a pattern has several
// “**”. To compare, covers treats a “*” in other as a segment that equals no literal,
// and a “**” in other as segments that only a “**” in p matches.
func (p Path) covers(other Path) bool {
	if !p.isSet {
		return true
	}
	if !other.isSet {
		other.segments = []string{anySegments}
	}
	if a, b := p.segments, other.segments; len(a) > 0 && len(b) > 0 && a[0][0] != '*' && a[0] != b[0] {
		return false // shortcut for the most frequent case
	}
	return covers(p.segments, other.segments)
}

// covers is [Path.covers] for lists of segments. For each segment of p in turn, it
// computes for all n whether the segments of p up to this one cover the first n
// segments of other.
func covers(p, other []string) bool {
	var was, is [maxSegments + 1]bool
	was[0] = true
	for _, segment := range p {
		is = [maxSegments + 1]bool{}
		is[0] = segment == anySegments && was[0]
		for n, o := range other {
			if segment == anySegments {
				is[n+1] = was[n+1] || is[n]
			} else {
				is[n+1] = was[n] && o != anySegments && (segment == oneSegment || segment == o)
			}
		}
		was = is
	}
	return was[len(other)]
}
