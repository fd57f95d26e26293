// Package urlpath reads URL paths as the programs that serve them do, so that one limit
// applies to all spellings of a path. The service selects routes with it, and both the
// service and the middleware build keys with it.
//
// A proxy and the program behind it may interpret a path differently, and a client
// could use such a difference to evade a limit. A path therefore has several readings.
// All of them decode percent-encoding once, remove empty segments, “.” and a trailing
// slash, resolve “..”, and ignore the case of ASCII letters. They differ as follows:
//
//   - strict: only “/” separates segments; %2F is part of its segment.
//   - lenient: “\”, %2F and %5C also separate segments, as in many programs. “;” and what
//     follows it in a segment is removed, as in Java programs, and so is “#” and what
//     follows. Blanks and control characters around a segment and dots at its end are
//     removed, as in Windows and some frameworks.
//   - The others apply some rules of the lenient reading only, or remove “;” and what
//     follows it up to the next “/” before they decode the segment, as Tomcat does.
//
// Routes are matched against all readings. A key contains the lenient reading, except
// for a path from which a client could make any number of lenient readings that some
// program serves as the same path. The keys of all of these paths contain [Ambiguous].
// Such a path has a “#” (/a#/../login), a “..” and a segment that the readings interpret
// differently (/a%2Fb/../login), or another separator than “/” after a “;” in a segment
// (/login;%2F1).
package urlpath

import (
	"slices"
	"strings"
)

// escapedSlash replaces an escaped slash (%2F) in readings in which it does not separate
// segments.
const escapedSlash = "\x00"

// Ambiguous is the text in keys for all paths that have no safe lenient reading. It
// differs from every reading, because it does not begin with a slash.
const Ambiguous = "ambiguous"

// MaxReadings is the maximum number of readings of a path.
const MaxReadings = 48

// AppendReadings appends all different readings of a path, which is still escaped and
// without its query: first the strict one, then the lenient one, then the others. Each
// reading begins with a slash and has no empty segments; “/” has no segments. There are
// at most [MaxReadings]. For a path that is already canonical, AppendReadings allocates
// no memory if dst has enough capacity.
func AppendReadings(dst []string, path string) []string {
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	if isCanonical(path) {
		return append(dst, path)
	}
	start := len(dst)
	add := func(r rules) {
		if reading := r.read(path); !slices.Contains(dst[start:], reading) {
			dst = append(dst, reading)
		}
	}
	used := usedRules(path)
	add(rules{})
	add(used)
	used.each(add)
	return dst
}

// Key returns the text of a path in a key: its lenient reading, or [Ambiguous].
func Key(path string) string {
	switch {
	case path != "" && path[0] == '/' && isCanonical(path):
		return path
	case isAmbiguous(path):
		return Ambiguous
	}
	return lenient.read(path)
}

// irregular has the bytes that a canonical path does not contain.
var irregular = func() (set [256]bool) {
	for c := range set {
		b := byte(c)
		set[c] = isTrimmed(b) || 'A' <= b && b <= 'Z' || b == '%' || b == '\\' || b == ';' || b == '#'
	}
	return set
}()

// isCanonical reports whether all readings of a path are identical to the path. A
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

// String returns the path of the segments.
func (s segments) String() string { return "/" + strings.Join(s, "/") }

// rules are the rules of a reading. The zero value is the strict reading.
type rules struct {
	slash, backslash bool       // whether %2F, and “\” and %5C, separate segments
	parameters       parameters // whether and when “;” and what follows it is removed
	fragment         bool       // whether “#” and what follows it is removed
	trims            bool       // whether [trim] applies to segments
}

// parameters is when a reading removes “;” and what follows it in a segment.
type parameters uint8

const (
	kept parameters = iota
	removedBeforeDecoding
	removedAfterDecoding
)

// lenient are the rules of the lenient reading.
var lenient = rules{true, true, removedAfterDecoding, true, true}

// usedRules returns the rules of the lenient reading that can change the given path.
func usedRules(path string) (r rules) {
	for segment := range strings.SplitSeq(path, "/") {
		for _, c := range []byte(unescape(segment)) {
			r.slash = r.slash || c == '/'
			r.backslash = r.backslash || c == '\\'
			r.fragment = r.fragment || c == '#'
			r.trims = r.trims || c == '.' || isTrimmed(c)
			if c == ';' {
				r.parameters = removedAfterDecoding
			}
		}
	}
	return r
}

// each calls f with all combinations of some of the rules r.
func (r rules) each(f func(rules)) {
	for n := range 16 {
		one := rules{slash: n&1 != 0, backslash: n&2 != 0, fragment: n&4 != 0, trims: n&8 != 0}
		if one.slash && !r.slash || one.backslash && !r.backslash || one.fragment && !r.fragment || one.trims && !r.trims {
			continue
		}
		for one.parameters = kept; one.parameters <= r.parameters; one.parameters++ {
			f(one)
		}
	}
}

// read returns the reading of a path by the rules r.
func (r rules) read(path string) string {
	if r.fragment {
		path, _, _ = strings.Cut(path, "#")
	}
	var s segments
	for segment := range strings.SplitSeq(path, "/") {
		r.split(segment, s.add)
	}
	return s.String()
}

// split calls add with the segments that the rules r find in a segment of an escaped
// path. It may call add with empty segments.
func (r rules) split(segment string, add func(string)) {
	if r.parameters == removedBeforeDecoding {
		segment, _, _ = strings.Cut(segment, ";")
	}
	separates := func(c rune) bool { return r.slash && c == '/' || r.backslash && c == '\\' }
	for part := range strings.FieldsFuncSeq(unescape(segment), separates) {
		if r.parameters == removedAfterDecoding {
			part, _, _ = strings.Cut(part, ";")
		}
		if r.trims {
			part = trim(part)
		}
		if !r.slash {
			part = strings.ReplaceAll(part, "/", escapedSlash)
		}
		add(part)
	}
}

// isAmbiguous reports whether the key of a path is [Ambiguous].
func isAmbiguous(path string) bool {
	if strings.Contains(path, "#") {
		return true
	}
	climbs, differs := false, false
	for segment := range strings.SplitSeq(path, "/") {
		decoded, parts := unescape(segment), 0
		lenient.split(segment, func(part string) {
			climbs = climbs || part == ".."
			differs = differs || part != decoded
			parts++
		})
		differs = differs || parts != 1 && decoded != ""
		if _, after, found := strings.Cut(decoded, ";"); found && strings.ContainsAny(after, `/\`) {
			return true
		}
	}
	return climbs && differs
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
