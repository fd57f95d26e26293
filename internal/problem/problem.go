// Package problem holds the bodies of answers without a decision, as RFC 9457 has them, for all that answer by HTTP.
package problem

import (
	"encoding/json"
	"net/http"
)

// The types of problems: those of the IETF draft, and that of one which its status explains.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	Plain           = "about:blank"
)

// ContentType is that of a problem's body.
const ContentType = "application/problem+json"

// Problem is a body. What is empty is left out, but for the first three.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Field    string   `json:"field,omitempty"` // where in the request
	Violated []string `json:"violated-policies,omitempty"`
}

// Write makes p the whole answer, which nothing may keep. The title is the status' own. net/http leaves the body out for HEAD.
func Write(w http.ResponseWriter, p Problem) {
	p.Title = http.StatusText(p.Status)
	body, _ := json.Marshal(p) // strings and numbers always can be
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client is gone, if this fails
}
