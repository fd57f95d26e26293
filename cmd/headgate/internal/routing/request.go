// Package routing says which policies a request is under and whose budget of each it spends: from what a door that sees HTTP knows of
// the request. It decides nothing and keeps no state.
//
// # How paths are read
//
// A proxy and the program behind it may read one path differently, and whoever finds a difference gets around a limit. So a path is
// read twice, and a request is under the first route that matches each reading; mostly that is the same one. Both readings take
// percent-encoding off once, leave out empty segments, “.” and a slash at the end, follow “..”, and ignore the case of ASCII letters.
// They differ in this:
//
//   - plainly: only “/” parts segments; %2F is a part of its segment.
//   - leniently: “\”, %2F and %5C part segments too, as in many programs, “;” and what follows it in a segment is left out, as
//     in Java's, and so is what follows a “#”.
//
// A key made of the path takes the lenient reading, so that no spelling has a budget of its own.
package routing

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Request is what is known of a request. Nothing of it is changed or retained.
type Request struct {
	Method     string      // in any case
	Scheme     string      // http or https; may be empty
	Host       string      // with or without a port
	Path       string      // as the client wrote it, escaped, without the query
	RawQuery   string      // without the question mark
	Header     http.Header // with canonical names
	ClientAddr netip.Addr  // the client's, not a proxy's: see package clientaddr; the zero Addr if it is not known
}

// SyntaxError points at the part of a key, a host or a path in a configuration that cannot be read.
type SyntaxError struct {
	What   string // key, host, path or method
	Input  string // the whole text
	Offset int    // where the offending part begins, in bytes
	Length int    // how many bytes it has
	Reason string // what is wrong, and what would be right
}

// Error names the part and the reason.
func (e *SyntaxError) Error() string {
	part := e.Input[e.Offset : e.Offset+e.Length]
	if part == "" {
		return fmt.Sprintf("%s: %s", e.What, e.Reason)
	}
	return fmt.Sprintf("%s: %.60q %s", e.What, part, e.Reason)
}

// canonicalHost is a host without port and dot at its end, in lower case; an IPv6 address stands in brackets and is written as
// [netip.Addr] writes it. It allocates only for capitals and for IPv6.
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

// canonicalMethod is a method in upper case: some programs take “post” for POST.
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

// lower is s with its ASCII letters in lower case. Other letters stay: what is not UTF-8 must not become equal.
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
