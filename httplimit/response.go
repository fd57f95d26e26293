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

const statusClientClosedRequest = 499 // status with which nginx logs such requests

// Problem writes a 429 response with an application/problem+json body: type
// quota-exceeded and the violated policies. It sets the header field RateLimit-Reason to
// “rate”, to “concurrency” if only limits such as “16 concurrent” denied, to “cost” if
// the cost is above the limit, or to “blocked” for a blocked key. The header fields of
// the decision, including Retry-After, are already set.
func Problem(w http.ResponseWriter, _ *http.Request, d *Denial) {
	w.Header().Set(reasonField, d.reason())
	writeJSON(w, http.StatusTooManyRequests, problem.ContentType, problem.Problem{
		Type: problem.QuotaExceeded, Title: http.StatusText(http.StatusTooManyRequests), Status: http.StatusTooManyRequests,
		Detail: d.detail(), Violated: d.Policies,
	})
}

// JSON writes a 429 response with an application/json body. The member “error” is the
// reason as a sentence, “policies” lists the violated policies, and “retry_after” is
// the wait in seconds, rounded up. “retry_after” is omitted if the cost is above the
// limit. JSON sets RateLimit-Reason in the same way as [Problem].
func JSON(w http.ResponseWriter, _ *http.Request, d *Denial) {
	w.Header().Set(reasonField, d.reason())
	writeJSON(w, http.StatusTooManyRequests, "application/json", struct {
		Error      string   `json:"error"`
		RetryAfter int64    `json:"retry_after,omitempty"`
		Policies   []string `json:"policies"`
	}{d.detail(), d.seconds(), d.Policies})
}

// Unavailable writes the response to a request that could not be decided: 503 with an
// application/problem+json body of type temporary-reduced-capacity. Retry-After is 1,
// because stores do not report when they will recover. If the reason is a cost below zero
// or an invalid limit from Charge.Limits, the status is 500. The body never contains the
// error, which is reported to the observer.
func Unavailable(w http.ResponseWriter, _ *http.Request, err error) {
	if isProgramError(err) {
		writeJSON(w, http.StatusInternalServerError, problem.ContentType, problem.Problem{
			Type: problem.Plain, Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError,
			Detail: "The server could not determine the " + programErrorSubject(err) + " of this request.",
		})
		return
	}
	w.Header().Set(reasonField, "capacity")
	w.Header().Set("Retry-After", "1")
	writeJSON(w, http.StatusServiceUnavailable, problem.ContentType, problem.Problem{
		Type: problem.ReducedCapacity, Title: http.StatusText(http.StatusServiceUnavailable), Status: http.StatusServiceUnavailable,
		Detail: "The rate limit for this request could not be checked. Try again in 1 s.",
	})
}

// isProgramError reports whether a function of a [Charge] caused the error.
func isProgramError(err error) bool {
	for _, target := range []error{
		headgate.ErrInvalidCost, headgate.ErrInvalidLimit, headgate.ErrInvalidPolicy, headgate.ErrUnsupported, headgate.ErrUnknownAlgorithm,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// programErrorSubject returns what the function of a [Charge] did not determine.
func programErrorSubject(err error) string {
	if errors.Is(err, headgate.ErrInvalidCost) {
		return "cost"
	}
	return "limit"
}

// reasonField is the name of the field RateLimit-Reason in the canonical form of
// net/http.
const reasonField = "Ratelimit-Reason"

func (d *Denial) reason() string {
	switch {
	case d.isBlocked():
		return "blocked"
	case d.Never:
		return "cost"
	case d.slots:
		return "concurrency"
	}
	return "rate"
}

// isBlocked reports whether the limit is [headgate.Blocked].
func (d *Denial) isBlocked() bool { return d.Never && d.Limit == 0 }

func (d *Denial) detail() string {
	if d.isBlocked() {
		return "Requests with this key are blocked. Retrying does not help."
	}
	if d.Never {
		return "The cost of this request exceeds the limit. Retrying does not help."
	}
	if d.slots {
		return fmt.Sprintf("Too many requests are in progress. Try again in %d s.", d.seconds())
	}
	return fmt.Sprintf("The rate limit was exceeded. Try again in %d s.", d.seconds())
}

// seconds returns the value of Retry-After, or 0 if the cost is above the limit.
func (d *Denial) seconds() int64 { return int64((d.RetryAfter + time.Second - 1) / time.Second) }

// writeJSON writes a complete response that must not be cached. It sets no
// Content-Length, because an outer middleware may change the body. For HEAD, net/http
// omits the body but sets its length.
func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	text, _ := json.Marshal(body) // strings and numbers always marshal
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Del("Content-Length")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // fails only if the client has disconnected
}
