package httpapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// decoder reads a body from left to right. It does not recurse: a body has nothing deeper
// than a field of a check.
type decoder struct {
	text      string
	at        int    // the next byte to read
	maxChecks int    // the maximum number of checks
	check     int    // the index of the current check; -1 outside checks
	field     string // the field whose value is being read; empty otherwise
	checks    []engine.Check
}

// member reads the name of an object's next member and its colon. more is false after the
// closing brace.
func (d *decoder) member(first bool) (name string, more bool, err error) {
	if d.next('}') {
		return "", false, nil
	}
	if !first && !d.next(',') {
		return "", false, d.malformed("expected a comma or }")
	}
	if d.skipSpace(); !d.isNext('"') {
		return "", false, d.malformed("expected a field name in quotes")
	}
	if name, err = d.string(); err != nil {
		return "", false, err
	}
	if !d.next(':') {
		return "", false, d.malformed("expected a colon")
	}
	return name, true, nil
}

// skipSpace skips white space.
func (d *decoder) skipSpace() {
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

// isNext reports whether c is the next byte.
func (d *decoder) isNext(c byte) bool { return d.at < len(d.text) && d.text[d.at] == c }

// next skips white space, and then c if it is the next byte, which it reports.
func (d *decoder) next(c byte) bool {
	d.skipSpace()
	if !d.isNext(c) {
		return false
	}
	d.at++
	return true
}

// string reads a string. Without escapes it is a part of the text and allocates nothing.
func (d *decoder) string() (string, error) {
	if !d.next('"') {
		return "", d.wrongType("a string")
	}
	start := d.at
	for d.at < len(d.text) {
		switch c := d.text[d.at]; {
		case c == '"':
			d.at++
			return d.text[start : d.at-1], nil
		case c == '\\' || c >= utf8.RuneSelf:
			return d.longString(start)
		case c < ' ':
			return "", d.malformed("control character in a string; write it as \\u00XX")
		}
		d.at++
	}
	return "", d.malformed("unterminated string")
}

// longString reads the rest of a string that has escapes or non-ASCII characters.
func (d *decoder) longString(start int) (string, error) {
	var b strings.Builder
	b.WriteString(d.text[start:d.at])
	for d.at < len(d.text) {
		c := d.text[d.at]
		switch {
		case c == '"':
			d.at++
			return b.String(), nil
		case c == '\\':
			r, err := d.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			continue
		case c < ' ':
			return "", d.malformed("control character in a string; write it as \\u00XX")
		}
		r, size := utf8.DecodeRuneInString(d.text[d.at:])
		if r == utf8.RuneError && size == 1 {
			return "", d.malformed("invalid UTF-8")
		}
		b.WriteString(d.text[d.at : d.at+size])
		d.at += size
	}
	return "", d.malformed("unterminated string")
}

// escape reads one backslash escape, or the two escapes of a surrogate pair.
func (d *decoder) escape() (rune, error) {
	if d.at+1 >= len(d.text) {
		return 0, d.malformed("unterminated string")
	}
	if i := strings.IndexByte(`"\/bfnrt`, d.text[d.at+1]); i >= 0 {
		d.at += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, ok := hexEscape(d.text[d.at:])
	if !ok {
		return 0, d.malformed(`expected an escape: \" \\ \/ \b \f \n \r \t or \uXXXX`)
	}
	if !utf16.IsSurrogate(r) {
		d.at += 6
		return r, nil
	}
	low, _ := hexEscape(d.text[d.at+6:])
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, d.malformed("incomplete surrogate pair")
	}
	d.at += 12
	return r, nil
}

// hexEscape parses \uXXXX at the beginning of s.
func hexEscape(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

// integer reads a whole number.
func (d *decoder) integer() (int64, error) {
	if d.skipSpace(); !d.isNext('-') && !d.isDigit() {
		return 0, d.wrongType("a whole number")
	}
	start := d.at
	if d.isNext('-') {
		d.at++
	}
	digits := d.at
	for d.isDigit() {
		d.at++
	}
	switch {
	case d.at == digits:
		return 0, d.malformed("expected a digit")
	case d.text[digits] == '0' && d.at > digits+1:
		return 0, d.malformed("a number has a leading zero")
	case d.isNext('.') || d.isNext('e') || d.isNext('E'):
		return 0, d.fieldError(d.field, "must be a whole number, without a fraction or an exponent")
	}
	n, err := strconv.ParseInt(d.text[start:d.at], 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, d.fieldError(d.field, "must be a whole number from 0 to 9223372036854775807")
	}
	return n, err
}

func (d *decoder) isDigit() bool {
	return d.at < len(d.text) && d.text[d.at] >= '0' && d.text[d.at] <= '9'
}

// malformed returns an error about invalid JSON. It never contains the text, which may be
// a key.
func (d *decoder) malformed(reason string) error {
	return &inputError{d.current(), fmt.Sprintf("malformed JSON at byte %d: %s", d.at, reason)}
}

// current returns the path of the current field or check; empty for the body.
func (d *decoder) current() string {
	if d.field == "" && d.check < 0 {
		return ""
	}
	return d.path(d.field)
}

// wrongType returns an error about a value that has another type than expected.
func (d *decoder) wrongType(expected string) error {
	found := ""
	if d.skipSpace(); d.at < len(d.text) {
		found = jsonKind(d.text[d.at])
	}
	path := d.current()
	switch {
	case found == "":
		return d.malformed("expected " + expected)
	case path == "":
		return &inputError{"", "the body must be " + expected + ", not " + found}
	}
	return &inputError{path, fmt.Sprintf("field %q must be %s, not %s", path, expected, found)}
}

// jsonKind returns the type of the value that begins with c; empty if no value does.
func jsonKind(c byte) string {
	switch {
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == 't' || c == 'f':
		return "true or false"
	case c == 'n':
		return "null"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	}
	return ""
}
