package demo

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
)

// fields returns the first lines of an HTTP response with this outcome: the status, and
// the header fields in the selected dialect.
func (s Settings) fields(a headgate.Algorithm, o outcome) []string {
	if o.err != nil {
		return []string{"503 Service Unavailable"}
	}
	lines := []string{"200 OK"}
	if !o.decision.Allowed {
		lines[0] = "429 Too Many Requests"
	}
	writer, err := httpfields.New(&httpfields.Options{Dialects: []httpfields.Dialect{s.Dialect}})
	if err != nil {
		return lines
	}
	set := writer.Set(httpfields.Limit{Name: policyName, Limit: s.limit(a), Algorithm: a, Capacity: o.decision.Limit})
	header := make(http.Header)
	var text strings.Builder
	writer.Write(header, set, []headgate.Decision{o.decision}, o.at, &text)
	for _, name := range slices.SortedFunc(maps.Keys(header), limitsFirst) {
		for _, value := range header[name] {
			lines = append(lines, asWritten(name)+": "+value)
		}
	}
	return lines
}

// limitsFirst sorts header fields about the limit before the others.
func limitsFirst(a, b string) int {
	return cmp.Or(strings.Compare(rank(a), rank(b)), strings.Compare(a, b))
}

func rank(name string) string {
	if strings.Contains(name, "Ratelimit") {
		return "a"
	}
	return "b"
}

// asWritten returns a field name with the usual capitalization; HTTP ignores case.
func asWritten(name string) string {
	return strings.ReplaceAll(name, "Ratelimit", "RateLimit")
}
