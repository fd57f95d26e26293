package routing

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// Host is a pattern of hosts: a name, “*.example.com” for every name below it however deep, or “*” for all. The zero value is all.
// Case, port and a dot at the end do not matter.
type Host struct{ text string }

// ParseHost reads a pattern.
func ParseHost(text string) (Host, error) {
	wrong := func(offset, length int, reason string) (Host, error) {
		return Host{}, &SyntaxError{"host", text, offset, length, reason}
	}
	if text == "" {
		return wrong(0, 0, "is empty; leave it out to match every host")
	}
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '*' && i > 0:
			return wrong(i, 1, "stands only at the beginning: *.example.com")
		case r == '/':
			return wrong(i, len(text)-i, "is no part of a host; a path goes into path")
		case r == ':' && text[0] != '[':
			return wrong(i, len(text)-i, "is no part of a pattern; leave the port out")
		case r > '~':
			return wrong(i, size, "is not ASCII; write the name as it travels: xn--…")
		case r <= ' ':
			return wrong(i, 1, "is no part of a host")
		}
	}
	h := Host{lower(strings.TrimRight(text, "."))}
	switch {
	case h.text == "*":
		return Host{}, nil
	case h.text == "":
		return wrong(0, len(text), "is no host")
	case h.text[0] == '*' && !strings.HasPrefix(h.text, "*."):
		return wrong(0, len(text), "is no pattern; write *.example.com for all names below example.com")
	case h.text[0] == '[':
		if addr, err := netip.ParseAddr(strings.Trim(h.text, "[]")); err != nil || h.text[len(h.text)-1] != ']' || !addr.Is6() {
			return wrong(0, len(text), "is no address; write [2001:db8::1], without a port")
		}
		h.text = canonicalHost(h.text)
	}
	return h, nil
}

// String is the pattern as it would be written; “*” for the zero value.
func (h Host) String() string {
	if h.text == "" {
		return "*"
	}
	return h.text
}

// matches says so for a canonical host.
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

// Path is a pattern of paths: literal segments, “*” for one segment, “**” for any number of them, also none. The zero value is all.
type Path struct {
	segments []string
	some     bool // it is not the zero value
}

// Both wildcards of a path.
const (
	oneSegment  = "*"
	anySegments = "**"
)

// mostSegments bounds a pattern.
const mostSegments = 32

// ParsePath reads a pattern such as /login, /api/** or /users/*/orders.
func ParsePath(text string) (Path, error) {
	wrong := func(offset, length int, reason string) (Path, error) {
		return Path{}, &SyntaxError{"path", text, offset, length, reason}
	}
	if text == "" || text[0] != '/' {
		return wrong(0, len(text), "must begin with a slash")
	}
	if i := strings.IndexAny(text, "?#%\\;"); i >= 0 {
		return wrong(i, 1, "is no part of a pattern; write the path as it is read, without query and percent-encoding")
	}
	p := Path{some: true}
	if text == "/" {
		return p, nil
	}
	at := 1
	for segment := range strings.SplitSeq(strings.TrimSuffix(text[1:], "/"), "/") {
		switch {
		case segment == "":
			return wrong(at-1, min(2, len(text)-at+1), "has nothing between its slashes")
		case segment == "." || segment == "..":
			return wrong(at, len(segment), "is followed before a path is matched; leave it out")
		case strings.Contains(segment, "*") && segment != oneSegment && segment != anySegments:
			return wrong(at, len(segment), "mixes text and *; a * stands for one whole segment, ** for any number of them")
		case strings.IndexFunc(segment, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
			return wrong(at, len(segment), "holds a control character")
		}
		p.segments = append(p.segments, lower(segment))
		at += len(segment) + 1
	}
	if len(p.segments) > mostSegments {
		return wrong(0, 0, "has more than 32 segments")
	}
	p.segments = ordered(p.segments)
	return p, nil
}

// ordered writes neighbouring wildcards in one way: each “*” first, then one “**”.
func ordered(segments []string) []string {
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

// String is the pattern as it would be written; “/**” for the zero value.
func (p Path) String() string {
	if !p.some {
		return "/**"
	}
	return "/" + strings.Join(p.segments, "/")
}

// matches says so for a reading of a path. A segment behind a “**” that does not fit moves the “**” on by one segment, so the time
// is at most that of comparing each segment of the path with each of the pattern.
func (p Path) matches(path string) bool {
	if !p.some {
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

// covers reports whether p matches every path that other matches. It may miss it for patterns with several “**”, and never claims it
// wrongly: other's “*” stands for a segment that equals no literal, its “**” for what only a “**” takes in.
func (p Path) covers(other Path) bool {
	if !p.some {
		return true
	}
	if !other.some {
		other.segments = []string{anySegments}
	}
	if a, b := p.segments, other.segments; len(a) > 0 && len(b) > 0 && a[0][0] != '*' && a[0] != b[0] {
		return false // as most do
	}
	return covers(p.segments, other.segments)
}

// covers fills, for one segment of p after another, whether what is read of it so far covers other's first n segments.
func covers(p, other []string) bool {
	var was, is [mostSegments + 1]bool
	was[0] = true
	for _, segment := range p {
		is = [mostSegments + 1]bool{}
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
