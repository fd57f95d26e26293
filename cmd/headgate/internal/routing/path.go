package routing

import "strings"

// held stands in a plain reading for a slash that is part of its segment. No literal of a pattern holds it.
const held = 0

// readings are the two ways to read a path: each begins with a slash and has no empty segment; “/” has none at all. A path that is
// written as it is read allocates nothing.
func readings(path string) (plain, lenient string) {
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	if written(path) {
		return path, path
	}
	plain, lenient = read(path, false), read(path, true)
	return plain, lenient
}

// written reports whether both readings of a path are the path itself.
func written(path string) bool {
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

// read is one reading.
func read(path string, leniently bool) string {
	if leniently {
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
		if segment = unescape(segment); !leniently {
			add(lower(strings.ReplaceAll(segment, "/", string(rune(held)))))
			continue
		}
		for part := range strings.FieldsFuncSeq(segment, func(r rune) bool { return r == '/' || r == '\\' }) {
			part, _, _ = strings.Cut(part, ";")
			add(lower(part))
		}
	}
	return "/" + strings.Join(segments, "/")
}

// unescape takes percent-encoding off, once. What is no encoding stays as it is.
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

// digit is the value of a hexadecimal digit, below 0 for what is none.
func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
