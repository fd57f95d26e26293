package routing

import (
	"net/http"
	"slices"
	"strings"
)

// HeaderMatch matches requests with a header field whose value matches a pattern. The
// pattern “*” matches every request that has the field.
type HeaderMatch struct {
	Name  string // canonical name of the field
	Value Pattern
}

// ParseHeaderName returns the canonical name of a header field that a route may match.
// If the name is invalid, the error is a [*SyntaxError].
func ParseHeaderName(name string) (string, error) {
	fail := func(reason string) (string, error) {
		return "", &SyntaxError{"header", name, 0, len(name), reason}
	}
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case name == "":
		return fail("is empty; write the name of a header field, such as X-Plan")
	case strings.Trim(name, headerNameChars) != "":
		return fail("is not a valid header field name")
	case canonical == "Host":
		return fail("is not supported; write host")
	case slices.Contains(forwardingFields, canonical):
		return fail("describes the client's address, which a route cannot match")
	}
	return canonical, nil
}

// headerNameChars are the characters of the name of a header field.
const headerNameChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!#$%&'*^`|~"

// matches reports whether a request has the field with a value that matches.
func (m *HeaderMatch) matches(h http.Header) bool {
	values := h[m.Name]
	return len(values) > 0 && m.Value.Matches(values[0])
}

// matchesHeader reports whether a header has all fields of the route.
func (r *Route) matchesHeader(h http.Header) bool {
	for i := range r.Headers {
		if !r.Headers[i].matches(h) {
			return false
		}
	}
	return true
}

// coversHeaders reports whether r matches every header that the route other matches.
func (r *Route) coversHeaders(other *Route) bool {
	for _, m := range r.Headers {
		if !slices.ContainsFunc(other.Headers, func(o HeaderMatch) bool { return o.Name == m.Name && m.Value.covers(o.Value) }) {
			return false
		}
	}
	return true
}

// IsCovered reports whether the routes by match, together, every request that r matches.
// The result true is always correct; the result false may be wrong.
func IsCovered(by []Route, r Route) bool { return coveringRoutes(by, &r) != nil }
