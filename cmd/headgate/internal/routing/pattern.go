package routing

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// Host is a pattern of hosts: a name, “*.example.com” for every name below it at any
// depth, or “*” for all hosts. The zero value matches all. Case, port and a trailing dot
// are ignored.
type Host struct{ text string }

// ParseHost parses a pattern.
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
	h := Host{lower(strings.TrimRight(text, "."))}
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

// String returns the pattern in its normal form; “*” for the zero value.
func (h Host) String() string {
	if h.text == "" {
		return "*"
	}
	return h.text
}

// matches reports whether a canonical host matches.
func (h Host) matches(host string) bool {
	switch {
	case h.text == "":
		return true
	case h.text[0] == '*':
		return len(host) > len(h.text)-1 && strings.HasSuffix(host, h.text[1:])
	}
	return host == h.text
}

// covers reports whether h matches every host that other matches.
func (h Host) covers(other Host) bool {
	if other.text != "" && other.text[0] == '*' && h.text != "" {
		return h.text[0] == '*' && strings.HasSuffix(other.text[1:], h.text[1:])
	}
	return h.text == "" || other.text != "" && h.matches(other.text)
}

// Path is a pattern of paths: literal segments, “*” for one segment, “**” for any number
// of segments, including none. The zero value matches all.
type Path struct {
	segments []string
	isSet    bool // false for the zero value
}

// The wildcards of a path.
const (
	oneSegment  = "*"
	anySegments = "**"
)

// maxSegments is the maximum number of segments of a pattern.
const maxSegments = 32

// ParsePath parses a pattern such as /login, /api/** or /users/*/orders.
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
		p.segments = append(p.segments, lower(segment))
		at += len(segment) + 1
	}
	if len(p.segments) > maxSegments {
		return fail(0, 0, "must have at most 32 segments")
	}
	p.segments = normalize(p.segments)
	return p, nil
}

// normalize orders adjacent wildcards: each “*” first, then one “**”.
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

// String returns the pattern in its normal form; “/**” for the zero value.
func (p Path) String() string {
	if !p.isSet {
		return "/**"
	}
	return "/" + strings.Join(p.segments, "/")
}

// matches reports whether a reading of a path matches. If the segments after a “**” do
// not match, it retries with the “**” one segment longer. The time is therefore at most
// that of comparing each segment of the path with each segment of the pattern.
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

// covers reports whether p matches every path that other matches. It may return false for
// a covered pattern with several “**”, and never returns true wrongly. It treats a “*” of
// other as a segment that equals no literal, and a “**” as segments that only a “**”
// matches.
func (p Path) covers(other Path) bool {
	if !p.isSet {
		return true
	}
	if !other.isSet {
		other.segments = []string{anySegments}
	}
	if a, b := p.segments, other.segments; len(a) > 0 && len(b) > 0 && a[0][0] != '*' && a[0] != b[0] {
		return false // the usual case
	}
	return covers(p.segments, other.segments)
}

// covers computes, for one segment of p after another, whether the segments of p so far
// cover the first n segments of other.
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
