// Package problem writes problem bodies (RFC 9457) of HTTP responses without a
// decision.
package problem

import (
	"encoding/json"
	"net/http"
)

// The problem types: those of the IETF draft, and about:blank, which the status
// explains.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	Plain           = "about:blank"
)

// ContentType is the media type of a problem body.
const ContentType = "application/problem+json"

// Problem is a problem body. Empty fields are omitted, except for the first three.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Field    string   `json:"field,omitempty"` // the field of the request
	Violated []string `json:"violated-policies,omitempty"`
}

// Write writes p as the whole response, which must not be cached. The title is the text
// of the status. net/http omits the body for HEAD.
func Write(w http.ResponseWriter, p Problem) {
	p.Title = http.StatusText(p.Status)
	body, _ := json.Marshal(p) // strings and numbers never fail
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // it fails only if the client disconnected
}
