// Package routing selects the policies for an HTTP request, and computes the request's
// key for each of them. It makes no rate limit decisions and has no state.
//
// # Paths
//
// A path is interpreted in several ways, called readings, because a proxy and the
// program behind it may interpret it differently; see package urlpath. For each reading,
// the first route that matches it applies; for most paths, this is the same route. If a
// key contains the path, it contains the lenient reading, or one fixed text for paths
// for which the lenient reading would not be safe, so that a client cannot get a budget
// for each spelling.
//
// # Methods
//
// A route for GET also matches HEAD, because most programs run the same code for both.
// Header fields that override the method, such as X-HTTP-Method-Override, are ignored:
// few programs apply them, and a client could choose its route with them.
package routing

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/headgate/headgate/internal/urlpath"
)

// Request describes an HTTP request. This package neither changes nor retains it.
type Request struct {
	Method     string      // method in any case; empty means GET
	Scheme     string      // http or https; may be empty
	Host       string      // host with or without a port
	Path       string      // path as the client wrote it, still escaped, without the query
	RawQuery   string      // query without the question mark
	Header     http.Header // header fields by canonical name
	ClientAddr netip.Addr  // address of the client, not of a proxy, see package clientaddr; zero if unknown
}

// SyntaxError is a syntax error in a key, a host, a path, a method, a header field or a
// pattern in a configuration.
type SyntaxError struct {
	What   string // kind of the text: key, host, path, method, header or pattern
	Input  string // the whole text
	Offset int    // start of the invalid part, in bytes
	Length int    // length of the invalid part, in bytes
	Reason string // what is wrong, and what would be valid
}

// Error returns the invalid part and the reason.
func (e *SyntaxError) Error() string {
	part := e.Input[e.Offset : e.Offset+e.Length]
	if part == "" {
		return fmt.Sprintf("%s: %s", e.What, e.Reason)
	}
	return fmt.Sprintf("%s: %.60q %s", e.What, part, e.Reason)
}

// canonicalHost returns a host in lower case, without port and trailing dot. An IPv6
// address is returned in brackets, in the text form of [netip.Addr]. canonicalHost
// allocates only for capital letters and IPv6 addresses.
func canonicalHost(host string) string {
	port := strings.IndexByte(host, ':')
	if port < 0 {
		return urlpath.Lower(strings.TrimRight(host, "."))
	}
	if literal, bracketed := strings.CutPrefix(host, "["); bracketed || port != strings.LastIndexByte(host, ':') {
		literal, _, _ = strings.Cut(literal, "]")
		if addr, err := netip.ParseAddr(literal); err == nil {
			return "[" + addr.String() + "]"
		}
	}
	return urlpath.Lower(strings.TrimRight(host[:port], "."))
}

// canonicalMethod returns a method in upper case, because some programs accept “post”
// as POST. An empty method becomes GET.
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
