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

// fields returns the status line and the rate limit header fields that an HTTP response
// with the outcome o would have, in the selected dialect.
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

// limitsFirst is a comparison function that sorts rate limit header fields before all
// other fields.
func limitsFirst(a, b string) int {
	return cmp.Or(strings.Compare(rank(a), rank(b)), strings.Compare(a, b))
}

func rank(name string) string {
	if strings.Contains(name, "Ratelimit") {
		return "a"
	}
	return "b"
}

// asWritten returns a header field's name with its usual capitalization. The
// capitalization has no meaning in HTTP.
func asWritten(name string) string {
	return strings.ReplaceAll(name, "Ratelimit", "RateLimit")
}
