package httpapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decoder decodes a body from left to right. It needs no recursion, because the most
// deeply nested valid values are the fields of a check.
type decoder struct {
	text      string
	at        int    // index of the next byte to read
	maxChecks int    // maximum number of checks
	maxHeld   int    // maximum number of checks of a hold
	check     int    // index of the current check; -1 outside the array of checks
	field     string // field whose value is being read; empty otherwise
	*request         // decoded so far
}

// member reads the name of the next member of an object, and the colon after it. more
// is false if the object ended instead. The parameter first is whether no member was
// read before.
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

// skipSpace skips whitespace.
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

// isNext reports whether the next byte is c.
func (d *decoder) isNext(c byte) bool { return d.at < len(d.text) && d.text[d.at] == c }

// next skips whitespace. It then reports whether the next byte is c, and skips this
// byte if so.
func (d *decoder) next(c byte) bool {
	d.skipSpace()
	if !d.isNext(c) {
		return false
	}
	d.at++
	return true
}

// string reads a string. A string of ASCII characters without escapes refers to d.text,
// and allocates nothing.
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

// key reads a key: a string, or an integer, which is the key of the same digits.
func (d *decoder) key() (string, error) {
	if d.skipSpace(); !d.isNext('-') && !d.isDigit() {
		if !d.isNext('"') {
			return "", d.wrongType("a string or an integer")
		}
		return d.string()
	}
	return d.digits()
}

// longString reads the rest of a string that has escapes or non-ASCII characters. The
// string begins at the index start.
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

// escape reads an escape sequence, or the two sequences of a surrogate pair, and
// returns the character.
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

// hexEscape parses an escape \uXXXX at the beginning of s. It returns false if there is
// none.
func hexEscape(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

// integer reads an integer.
func (d *decoder) integer() (int64, error) {
	if d.skipSpace(); !d.isNext('-') && !d.isDigit() {
		return 0, d.wrongType("a whole number")
	}
	text, err := d.digits()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, d.fieldError(d.field, "is "+truncate(text)+"; must be a whole number from 0 to 9223372036854775807")
	}
	return n, err
}

// digits reads an integer of any size as text. The next byte must be a minus or a digit.
func (d *decoder) digits() (string, error) {
	start := d.at
	if d.isNext('-') {
		d.at++
	}
	first := d.at
	for d.isDigit() {
		d.at++
	}
	switch {
	case d.at == first:
		return "", d.malformed("expected a digit")
	case d.text[first] == '0' && d.at > first+1:
		return "", d.malformed("a number has a leading zero")
	case d.isNext('.') || d.isNext('e') || d.isNext('E'):
		return "", d.fieldError(d.field, "must be a whole number, without a fraction or an exponent")
	}
	return d.text[start:d.at], nil
}

func (d *decoder) isDigit() bool {
	return d.at < len(d.text) && d.text[d.at] >= '0' && d.text[d.at] <= '9'
}

// malformed returns an error for invalid JSON. The error never contains text of the
// body, which may be a key.
func (d *decoder) malformed(reason string) error {
	return &inputError{d.current(), fmt.Sprintf("the body has malformed JSON at byte %d: %s", d.at, reason)}
}

// current returns the path of the current field or check, or an empty string outside of
// both.
func (d *decoder) current() string {
	if d.field == "" && d.check < 0 {
		return ""
	}
	return d.path(d.field)
}

// wrongType returns an error for a value that does not have the expected type.
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

// jsonKind returns the type of a JSON value that begins with c, or an empty string if
// no value begins with c.
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
