package clientaddr

import (
	"net/netip"
	"strings"
)

// lastForwarded splits the last element off a line of Forwarded. It looks for quotes from the right, because what stands on the left
// may be a client's: a quote that it opens and leaves open, as in
//
//	for=192.0.2.1;by=", for=203.0.113.9
//
// would swallow what our proxies have appended. Read from the right, what they wrote is whole whatever stands before it. A quote
// inside of quotes has a backslash before it; the one that opens them has not, as it stands behind an equals sign.
func lastForwarded(line string) (rest, element string, more bool) {
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

// parseForwarded reads the address in an element of Forwarded, its one parameter “for”. It is not found in an element without it, with
// two of them, with an identifier in place of an address (“unknown”, _hidden), or with a part that is not a parameter.
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

// pair is one parameter of an element. Its value is not yet unescaped.
type pair struct {
	name, value string
}

// cutPair takes the first pair off the pairs of an element, which semicolons separate. A pair may be empty.
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

// cutValue takes a parameter's value off what follows its equals sign, and the semicolon after it. Values that should be quoted and are
// not, for their colons and brackets, are read all the same: many proxies write them.
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

// endOfQuoted is where the quote stands that closes a quoted string; -1 if there is none.
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

// text is the value without its escapes. One that is too long for an address is left as it is: it is none.
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
