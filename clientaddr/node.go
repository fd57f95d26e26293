package clientaddr

import (
	"net/netip"
	"strings"
)

// maxNode is the maximum length in bytes of text that is parsed. No address with a zone
// and a port is longer.
const maxNode = 128

// parseNode parses an address in the forms that servers and proxies write: 203.0.113.9,
// 203.0.113.9:4711, 2001:db8::1, [2001:db8::1], [2001:db8::1]:4711, with or without a
// zone, optionally with spaces around the address. The result is unmapped and without a
// zone. An IPv6 address with a port must have brackets; otherwise the port is parsed as
// part of the address. Numbers with leading zeros are invalid, because some programs
// read them as octal.
func parseNode(s string) (netip.Addr, bool) {
	if s == "" {
		return netip.Addr{}, false
	}
	if s[0] <= ' ' || s[len(s)-1] <= ' ' {
		s = strings.Trim(s, " \t")
	}
	if a, rest, ok := leadingIPv4(s); ok && (rest == "" || rest[0] == ':' && isPort(rest[1:])) {
		return a, true
	}
	if len(s) > maxNode {
		return netip.Addr{}, false
	}
	if inner, bracket := strings.CutPrefix(s, "["); bracket {
		host, port, closed := strings.Cut(inner, "]")
		if !closed || port != "" && (port[0] != ':' || !isPort(port[1:])) {
			return netip.Addr{}, false
		}
		s = host
	}
	return parseIPv6(s)
}

// leadingIPv4 returns the IPv4 address at the start of s, and the text after the
// address. It reads each byte only once, because most requests have an IPv4 address.
func leadingIPv4(s string) (a netip.Addr, rest string, ok bool) {
	var fields [4]byte
	for i := range fields {
		n, digits := 0, 0
		for digits < len(s) && digits < 3 && '0' <= s[digits] && s[digits] <= '9' {
			n = n*10 + int(s[digits]-'0')
			digits++
		}
		if digits == 0 || n > 255 || digits > 1 && s[0] == '0' {
			return netip.Addr{}, "", false
		}
		fields[i], s = byte(n), s[digits:]
		if i < 3 {
			if s == "" || s[0] != '.' {
				return netip.Addr{}, "", false
			}
			s = s[1:]
		}
	}
	return netip.AddrFrom4(fields), s, true
}

func parseIPv6(s string) (netip.Addr, bool) {
	s, zone, zoned := strings.Cut(s, "%")
	// Texts such as “unknown” and “host:80” are common, and the errors of netip
	// allocate.
	if zoned && zone == "" || strings.Count(s, ":") < 2 {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap(), err == nil
}

// isPort reports whether s is a port as defined in RFC 7239: up to five digits, or an
// obfuscated port, which is “_” followed by letters, digits, “.”, “_” or “-”.
func isPort(s string) bool {
	if obfuscated, found := strings.CutPrefix(s, "_"); found {
		return all(obfuscated, func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("._-", c) >= 0 })
	}
	return len(s) <= 5 && all(s, func(c byte) bool { return '0' <= c && c <= '9' })
}

// isToken reports whether s is a token as defined in RFC 9110, the syntax of the names
// of fields and parameters.
func isToken(s string) bool {
	return all(s, func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 })
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// all reports whether s is not empty and the function in returns true for every byte of
// s.
func all(s string, in func(byte) bool) bool {
	for i := range len(s) {
		if !in(s[i]) {
			return false
		}
	}
	return s != ""
}
