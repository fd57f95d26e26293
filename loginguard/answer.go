package loginguard

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// setRetryAfter tells a wait in whole seconds, rounded up. There is none for a try that no wait helps.
func setRetryAfter(h http.Header, wait time.Duration) {
	if wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
}

// problem answers with an RFC 9457 body.
func problem(w http.ResponseWriter, status int, kind, title string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct { // an answer that does not arrive has nobody to tell
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
	}{kind, title, status})
}
