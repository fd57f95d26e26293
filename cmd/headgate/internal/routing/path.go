package routing

import "strings"

// escapedSlash replaces an escaped slash (%2F) in the strict reading of a path, so that
// it does not separate segments. No literal in a pattern contains this byte.
const escapedSlash = 0

// canonicalPaths returns the strict and the lenient reading of a path; see the package
// documentation. Each reading begins with a slash and has no empty segments; “/” has no
// segments. If the path is already canonical, canonicalPaths allocates nothing.
func canonicalPaths(path string) (strict, lenient string) {
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	if isCanonical(path) {
		return path, path
	}
	strict, lenient = readPath(path, false), readPath(path, true)
	return strict, lenient
}

// isCanonical reports whether both readings of a path are identical to the path.
func isCanonical(path string) bool {
	if path == "/" {
		return true
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '%' || c == '\\' || c == ';' || c == '#' || 'A' <= c && c <= 'Z':
			return false
		case c == '/' && (i+1 == len(path) || path[i+1] == '/' || path[i+1] == '.'):
			return false
		}
	}
	return true
}

// readPath returns the lenient or the strict reading of a path.
func readPath(path string, lenient bool) string {
	if lenient {
		path, _, _ = strings.Cut(path, "#")
	}
	var segments []string
	add := func(segment string) {
		switch segment {
		case "", ".":
		case "..":
			segments = segments[:max(0, len(segments)-1)]
		default:
			segments = append(segments, segment)
		}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment = unescape(segment); !lenient {
			add(lower(strings.ReplaceAll(segment, "/", string(rune(escapedSlash)))))
			continue
		}
		for part := range strings.FieldsFuncSeq(segment, func(r rune) bool { return r == '/' || r == '\\' }) {
			part, _, _ = strings.Cut(part, ";")
			add(lower(part))
		}
	}
	return "/" + strings.Join(segments, "/")
}

// unescape decodes percent-encoding once. It does not change invalid encoding.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && digit(s[i+1]) >= 0 && digit(s[i+2]) >= 0 {
			b = append(b, byte(digit(s[i+1])<<4|digit(s[i+2])))
			i += 2
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

// digit returns the value of a hexadecimal digit, or -1 if c is not one.
func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
