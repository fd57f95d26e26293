package clientaddr

import (
	"net/netip"
	"strings"
)

// cutLastForwarded cuts the last element off a line of the field Forwarded. It searches
// for quotes from the right, because a client may have written the left part of the
// line. A quote that the client opens and does not close, as in
//
//	for=192.0.2.1;by=", for=203.0.113.9
//
// would otherwise include the elements that trusted proxies have appended. Read from
// the right, the elements of the proxies are complete, whatever precedes them. A quote
// inside a quoted string follows a backslash; the opening quote follows an equals sign.
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

// parseForwarded parses the address in the parameter “for” of an element of Forwarded.
// It returns false if the parameter is missing or occurs twice, if its value is an
// identifier instead of an address (“unknown”, “_hidden”), or if any part of the
// element is not a parameter.
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

// pair is a parameter of an element of Forwarded. Escapes in the value are not yet
// removed.
type pair struct {
	name, value string
}

// cutPair cuts the first parameter off s, in which semicolons separate the parameters.
// A parameter may be empty. It returns false if s does not start with a parameter.
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

// cutValue cuts the value of a parameter, and the semicolon after the value, off s. It
// accepts unquoted values with colons and brackets, which should be quoted, because
// many proxies write them without quotes.
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

// endOfQuoted returns the index of the quote that ends the quoted string, or -1 if
// there is none. The opening quote is not in s.
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

// text returns the value without escapes. A value that is too long for an address is
// returned unchanged.
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
