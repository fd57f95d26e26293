package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/problem"
)

const statusClientGone = 499 // as nginx logs it

// Problem answers 429 with application/problem+json: type quota-exceeded, and the policies that were violated. It sets the field
// RateLimit-Reason, which says in one word for programs why this 429 came: rate, or cost if no wait helps. The header fields of
// the decision, Retry-After among them, are there already.
func Problem(w http.ResponseWriter, _ *http.Request, d *Denial) {
	w.Header().Set(reasonField, d.reason())
	writeJSON(w, http.StatusTooManyRequests, problem.ContentType, problem.Problem{
		Type: problem.QuotaExceeded, Title: http.StatusText(http.StatusTooManyRequests), Status: http.StatusTooManyRequests,
		Detail: d.detail(), Violated: d.Policies,
	})
}

// JSON answers 429 with {"error": …}, for clients that expect it, in seconds after which the request is admitted, rounded up,
// unless no wait helps, and the policies that were violated. It sets RateLimit-Reason as [Problem] does.
func JSON(w http.ResponseWriter, _ *http.Request, d *Denial) {
	w.Header().Set(reasonField, d.reason())
	writeJSON(w, http.StatusTooManyRequests, "application/json", struct {
		Error      string   `json:"error"`
		RetryAfter int64    `json:"retry_after,omitempty"`
		Policies   []string `json:"policies"`
	}{d.detail(), d.seconds(), d.Policies})
}

// Unavailable answers a request for which nothing could be decided: 503 with application/problem+json, type
// temporary-reduced-capacity, and Retry-After: 1, as no store says when it will be back; and 500 if the cost was below zero. The
// body says nothing of the cause: that is for the observer.
func Unavailable(w http.ResponseWriter, _ *http.Request, err error) {
	if errors.Is(err, headgate.ErrInvalidCost) {
		writeJSON(w, http.StatusInternalServerError, problem.ContentType, problem.Problem{
			Type: problem.Plain, Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError,
			Detail: "the cost of this request could not be told",
		})
		return
	}
	w.Header().Set(reasonField, "capacity")
	w.Header().Set("Retry-After", "1")
	writeJSON(w, http.StatusServiceUnavailable, problem.ContentType, problem.Problem{
		Type: problem.ReducedCapacity, Title: http.StatusText(http.StatusServiceUnavailable), Status: http.StatusServiceUnavailable,
		Detail: "whether this request may go ahead cannot be decided at the moment; try again soon",
	})
}

// reasonField tells programs why; its name has the form that net/http keeps fields in.
const reasonField = "Ratelimit-Reason"

func (d *Denial) reason() string {
	if d.Never {
		return "cost"
	}
	return "rate"
}

func (d *Denial) detail() string {
	if d.Never {
		return "this request costs more than the limit ever grants at once; no wait helps"
	}
	return fmt.Sprintf("too many requests; try again in %d s", d.seconds())
}

// seconds is Retry-After; 0 if no wait helps.
func (d *Denial) seconds() int64 { return int64((d.RetryAfter + time.Second - 1) / time.Second) }

// writeJSON is a whole answer that nothing keeps. net/http leaves the body out for HEAD, and counts it: a middleware around may
// change it, so its length is not said here.
func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	text, _ := json.Marshal(body) // strings and numbers always can be
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Del("Content-Length")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client is gone, if this fails
}
