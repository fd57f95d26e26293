package clientaddr

import (
	"net/netip"
	"strings"
)

// lastForwarded splits the last element off a line of Forwarded. It looks for quotes
// from the right, because a client may have written the left part. A quote that the
// client opens and does not close, as in
//
//	for=192.0.2.1;by=", for=203.0.113.9
//
// would include what trusted proxies have appended. Read from the right, the elements
// of the proxies are complete, whatever precedes them. A quote inside a quoted string
// has a backslash before it. The opening quote has an equals sign before it.
func cutLastForwarded(line string) (rest, element string, more bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch {
		case line[i] == '"' && !(quoted && i > 0 && line[i-1] == '\\'):
			quoted = !quoted
		case line[i] == ',' && !quoted:
			return line[:i], line[i+1:], true
		}
	}
	return "", line, false
}

// parseForwarded parses the address in an element of Forwarded: its single parameter
// "for". It returns false if the parameter is missing or occurs twice, if it is an
// identifier in place of an address ("unknown", _hidden), or if a part of the element
// is not a parameter.
func parseForwarded(element string) (netip.Addr, bool) {
	var node string
	found := false
	for rest := element; rest != ""; {
		var pair pair
		var fine bool
		if pair, rest, fine = cutPair(rest); !fine {
			return netip.Addr{}, false
		}
		if !strings.EqualFold(pair.name, "for") {
			continue
		}
		if found {
			return netip.Addr{}, false
		}
		node, found = pair.text(), true
	}
	if !found {
		return netip.Addr{}, false
	}
	return parseNode(node)
}

// pair is a parameter of an element. Its value is still escaped.
type pair struct {
	name, value string
}

// cutPair splits the first of the pairs of an element, which semicolons separate. A
// pair may be empty.
func cutPair(s string) (p pair, rest string, fine bool) {
	s = strings.TrimLeft(s, " \t")
	end := strings.IndexAny(s, "=;")
	if end < 0 {
		return pair{}, "", s == ""
	}
	if s[end] == ';' {
		return pair{}, s[end+1:], end == 0
	}
	p.name = s[:end]
	p.value, rest, fine = cutValue(s[end+1:])
	return p, rest, fine && isToken(p.name)
}

// cutValue splits a parameter's value, and the semicolon after it, off the text after
// the equals sign. It accepts values with colons and brackets that should be quoted and
// are not, because many proxies write them.
func cutValue(s string) (value, rest string, fine bool) {
	if strings.HasPrefix(s, `"`) {
		end := 1 + endOfQuoted(s[1:])
		if end == 0 {
			return "", "", false
		}
		value, s = s[1:end], s[end+1:]
		after, rest, _ := strings.Cut(s, ";")
		return value, rest, strings.Trim(after, " \t") == ""
	}
	value, rest, _ = strings.Cut(s, ";")
	value = strings.TrimRight(value, " \t")
	return value, rest, value != "" && !strings.ContainsAny(value, "\"\\ \t")
}

// endOfQuoted returns the index of the quote that closes a quoted string, or -1.
func endOfQuoted(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// text returns the value without its escapes. A value that is too long for an address
// is returned unchanged.
func (p pair) text() string {
	if len(p.value) > maxNode || !strings.Contains(p.value, `\`) {
		return p.value
	}
	plain := make([]byte, 0, maxNode)
	for i := 0; i < len(p.value); i++ {
		if p.value[i] == '\\' {
			i++
		}
		plain = append(plain, p.value[i])
	}
	return string(plain)
}
