// Package urlpath reads URL paths as the programs that serve them do, so that one limit
// applies to all spellings of a path. The service selects routes with it, and both the
// service and the middleware build keys with it.
//
// A proxy and the program behind it may interpret a path differently, and a client
// could use such a difference to evade a limit. There are therefore two readings of a
// path. Both decode percent-encoding once, remove empty segments, “.” and a trailing
// slash, resolve “..”, and ignore the case of ASCII letters. They differ as follows:
//
//   - strict: only “/” separates segments; %2F is part of its segment.
//   - lenient: “\”, %2F and %5C also separate segments, as in many programs. “;” and what
//     follows it in a segment is removed, as in Java programs, and so is “#” and what
//     follows. Blanks and control characters around a segment and dots at its end are
//     removed, as in Windows and some frameworks.
package urlpath

import "strings"

// escapedSlash replaces an escaped slash (%2F) in the strict reading of a path, so that
// it does not separate segments.
const escapedSlash = "\x00"

// Readings returns the strict and the lenient reading of a path, which is still escaped
// and without its query; see the package documentation. Each reading begins with a slash
// and has no empty segments; “/” has no segments. A path that is already canonical is
// returned without allocating memory.
func Readings(path string) (strict, lenient string) {
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	if isCanonical(path) {
		return path, path
	}
	return readStrict(path), readLenient(path)
}

// Lenient returns the lenient reading of a path.
func Lenient(path string) string {
	if path != "" && path[0] == '/' && isCanonical(path) {
		return path
	}
	return readLenient(path)
}

// irregular has the bytes that a canonical path does not contain.
var irregular = func() (set [256]bool) {
	for c := range set {
		b := byte(c)
		set[c] = isTrimmed(b) || 'A' <= b && b <= 'Z' || b == '%' || b == '\\' || b == ';' || b == '#'
	}
	return set
}()

// isCanonical reports whether both readings of a path are identical to the path. A
// segment that ends with a dot, such as “..”, or an empty one is not canonical.
func isCanonical(path string) bool {
	for i := range len(path) {
		c := path[i]
		if irregular[c] {
			return false
		}
		if (c == '/' || c == '.') && (i+1 == len(path) || path[i+1] == '/') {
			return path == "/"
		}
	}
	return true
}

// isTrimmed reports whether the lenient reading removes c around a segment: a blank or a
// control character.
func isTrimmed(c byte) bool { return c <= ' ' || c == 0x7f }

// segments collects the segments of a path.
type segments []string

// add appends a segment, or resolves it if it is empty, “.” or “..”.
func (s *segments) add(segment string) {
	switch segment {
	case "", ".":
	case "..":
		*s = (*s)[:max(0, len(*s)-1)]
	default:
		*s = append(*s, Lower(segment))
	}
}

func (s segments) String() string { return "/" + strings.Join(s, "/") }

func readStrict(path string) string {
	var s segments
	for segment := range strings.SplitSeq(path, "/") {
		s.add(strings.ReplaceAll(unescape(segment), "/", escapedSlash))
	}
	return s.String()
}

func readLenient(path string) string {
	path, _, _ = strings.Cut(path, "#")
	var s segments
	for segment := range strings.SplitSeq(path, "/") {
		for part := range strings.FieldsFuncSeq(unescape(segment), func(r rune) bool { return r == '/' || r == '\\' }) {
			part, _, _ = strings.Cut(part, ";")
			s.add(trim(part))
		}
	}
	return s.String()
}

// trim removes blanks and control characters around a segment, and dots and blanks at
// its end. “.” and “..” remain, because they have a meaning.
func trim(segment string) string {
	if segment == "" {
		return ""
	}
	if last := segment[len(segment)-1]; !isTrimmed(segment[0]) && !isTrimmed(last) && last != '.' {
		return segment
	}
	for segment != "" && isTrimmed(segment[0]) {
		segment = segment[1:]
	}
	end := len(segment)
	for end > 0 && isTrimmed(segment[end-1]) {
		end--
	}
	if segment = segment[:end]; segment == "." || segment == ".." {
		return segment
	}
	for end > 0 && (segment[end-1] == '.' || isTrimmed(segment[end-1])) {
		end--
	}
	return segment[:end]
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

// Lower returns s with ASCII letters in lower case. It does not change other bytes,
// because different strings of invalid UTF-8 must not become equal.
func Lower(s string) string {
	for i := range len(s) {
		if c := s[i]; 'A' <= c && c <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if c := b[i]; 'A' <= c && c <= 'Z' {
					b[i] = c + 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
