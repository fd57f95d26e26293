package routing

import (
	"net/http"
	"slices"
	"strings"
)

// HeaderError is the error for a header field that selects a route or a key, and of which
// the request may have several values. One of them may be the client's, although the
// proxy has set the other.
type HeaderError struct {
	Name    string // canonical name of the field
	Trusted bool   // whether the proxies set or remove the field
	// Comma is true if the field has one value with a comma, to which a proxy may have
	// joined several. False means that the field is repeated.
	Comma bool
}

// Error returns what is wrong and what to do. It contains no value of the field.
func (e *HeaderError) Error() string {
	switch {
	case e.Comma:
		return e.Name + " has a comma, so it may be several values; configure the proxy to replace the client's field by a value without commas"
	case e.Trusted:
		return e.Name + " is repeated; configure the proxy to replace the client's field"
	}
	return e.Name + " is repeated; send it once"
}

// singleField is a header field of which a request must have at most one value.
type singleField struct {
	name    string // canonical name
	trusted bool
	commas  bool // whether a value may have commas
}

func newSingleField(name string, trusted []string) singleField {
	f := singleField{name: name, trusted: slices.Contains(trusted, name)}
	f.commas = !f.trusted || slices.Contains(fieldsWithCommas, name) || strings.HasPrefix(name, "Accept-") || strings.HasPrefix(name, "Sec-Ch-")
	return f
}

// fieldsWithCommas are the fields of requests whose single value may have commas by their
// standards.
var fieldsWithCommas = []string{
	"Accept", "Authorization", "Cache-Control", "Cookie", "Date", "From", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range",
	"If-Unmodified-Since", "Origin", "Proxy-Authorization", "Range", "Referer", "Te", "Upgrade", "User-Agent", "Via",
}

// check returns an error if a header may have several values of the field.
func (f *singleField) check(h http.Header) error {
	switch values := h[f.name]; {
	case len(values) > 1:
		return &HeaderError{Name: f.name, Trusted: f.trusted}
	case len(values) == 1 && !f.commas && strings.IndexByte(values[0], ',') >= 0:
		return &HeaderError{Name: f.name, Trusted: f.trusted, Comma: true}
	}
	return nil
}

func checkAll(fields []singleField, h http.Header) error {
	for i := range fields {
		if err := fields[i].check(h); err != nil {
			return err
		}
	}
	return nil
}

// matchedFields returns the fields that the routes match, without duplicates.
func matchedFields(routes []Route, trusted []string) (fields []singleField) {
	for i := range routes {
		for _, m := range routes[i].Headers {
			if !slices.ContainsFunc(fields, func(f singleField) bool { return f.name == m.Name }) {
				fields = append(fields, newSingleField(m.Name, trusted))
			}
		}
	}
	return fields
}

// keyFields returns the fields in the key of each policy, by policy.
func keyFields(keys map[string]Key, trusted []string) map[string][]singleField {
	fields := make(map[string][]singleField)
	for policy, key := range keys {
		for name := range headersIn(key.String()) {
			fields[policy] = append(fields[policy], newSingleField(name, trusted))
		}
	}
	return fields
}
