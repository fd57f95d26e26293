// Package routing selects the policies of an HTTP request and computes its key for each
// policy. It decides nothing and has no state.
//
// # Paths
//
// A proxy and the program behind it may interpret one path differently, and a client that
// finds a difference could bypass a limit. A path is therefore read in two ways, and the
// first route that matches each reading applies. Mostly both match the same route. Both
// readings decode percent-encoding once, remove empty segments, “.” and a trailing slash,
// resolve “..”, and ignore the case of ASCII letters. They differ as follows:
//
//   - strict: only “/” separates segments; %2F is part of its segment.
//   - lenient: “\”, %2F and %5C also separate segments, as in many programs. “;” and what
//     follows it in a segment is removed, as in Java programs, and so is “#” and what
//     follows.
//
// A key made of the path uses the lenient reading, so that all spellings share one key.
package routing

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Request describes an HTTP request. It is neither changed nor retained.
type Request struct {
	Method     string      // in any case
	Scheme     string      // http or https; may be empty
	Host       string      // with or without a port
	Path       string      // as the client wrote it, escaped, without the query
	RawQuery   string      // without the question mark
	Header     http.Header // with canonical names
	ClientAddr netip.Addr  // the client, not a proxy: see package clientaddr; zero if unknown
}

// SyntaxError is an invalid part of a key, a host, a path or a method in a configuration.
type SyntaxError struct {
	What   string // key, host, path or method
	Input  string // the whole text
	Offset int    // where the invalid part begins, in bytes
	Length int    // its length in bytes
	Reason string // what is wrong, and what is valid
}

// Error returns the part and the reason.
func (e *SyntaxError) Error() string {
	part := e.Input[e.Offset : e.Offset+e.Length]
	if part == "" {
		return fmt.Sprintf("%s: %s", e.What, e.Reason)
	}
	return fmt.Sprintf("%s: %.60q %s", e.What, part, e.Reason)
}

// canonicalHost returns a host in lower case, without port and trailing dot. An IPv6
// address is in brackets, in the form of [netip.Addr]. It allocates only for capital
// letters and for IPv6.
func canonicalHost(host string) string {
	port := strings.IndexByte(host, ':')
	if port < 0 {
		return lower(strings.TrimRight(host, "."))
	}
	if literal, bracketed := strings.CutPrefix(host, "["); bracketed || port != strings.LastIndexByte(host, ':') {
		literal, _, _ = strings.Cut(literal, "]")
		if addr, err := netip.ParseAddr(literal); err == nil {
			return "[" + addr.String() + "]"
		}
	}
	return lower(strings.TrimRight(host[:port], "."))
}

// canonicalMethod returns a method in upper case: some programs accept “post” as POST.
func canonicalMethod(method string) string {
	if method == "" {
		return http.MethodGet
	}
	for i := range len(method) {
		if c := method[i]; 'a' <= c && c <= 'z' {
			return strings.ToUpper(method)
		}
	}
	return method
}

// lower returns s with ASCII letters in lower case. Other letters stay: invalid UTF-8
// strings that differ must not become equal.
func lower(s string) string {
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
