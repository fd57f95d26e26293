// Package problem writes problem bodies (RFC 9457) of HTTP responses that contain no
// decision.
package problem

import (
	"encoding/json"
	"net/http"
)

// The problem types: two types from the IETF draft, and about:blank, for which the
// status is the only explanation.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	Plain           = "about:blank"
)

// ContentType is the media type of a problem body.
const ContentType = "application/problem+json"

// Problem is a problem body. Empty fields other than Type, Title and Status are
// omitted.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Field    string   `json:"field,omitempty"` // field of the request that caused the problem
	Error    string   `json:"error,omitempty"` // kind of an error about a hold, for programs
	Violated []string `json:"violated-policies,omitempty"`
}

// Write writes p as the complete response, which must not be cached. It sets the title
// to the text of the status. For HEAD, net/http omits the body.
func Write(w http.ResponseWriter, p Problem) {
	p.Title = http.StatusText(p.Status)
	body, _ := json.Marshal(p) // marshaling strings and numbers never fails
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // fails only if the client has disconnected
}
