package forwardauth

import (
	"context"
	"net/http"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/answerfields"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/problem"
)

// decisionField is the name of the header field with the decision, in the canonical
// form of net/http.
const decisionField = "X-Ratelimit-Decision"

// holdField is the name of the header field with the token of the hold.
const holdField = "X-Ratelimit-Hold"

// Values of header fields that all responses share. They must not be modified.
var (
	allowed = []string{"allow"}
	denied  = []string{"deny"}
	failed  = []string{"error"}
	noStore = []string{"no-store"}
)

// denyStatus returns the status for a denial: 429 for most proxies, 403 for nginx, and
// 503 for proxies that support neither.
func denyStatus(query string) (int, *refusal) {
	status, ok := answerfields.DenyStatus(query, "deny", http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	if !ok {
		return 0, refuse(http.StatusBadRequest, "the query parameter deny must be 403, 429 or 503, and must not be repeated")
	}
	return status, nil
}

// allow writes the response for an allowed request. Proxies must not cache the
// response, because it applies to one request only.
func allow(w http.ResponseWriter) {
	h := w.Header()
	h[decisionField], h["Cache-Control"] = allowed, noStore
	w.WriteHeader(http.StatusOK)
}

// writeDenial writes the response for a denied request, except for the rate limit
// fields, which are already set.
func writeDenial(w http.ResponseWriter, status int, a *engine.Answer) {
	w.Header()[decisionField] = denied
	problem.Write(w, problem.Problem{Type: problem.QuotaExceeded, Status: status, Violated: a.DeniedBy})
}

// refusal is the reason why no decision was made, as a response.
type refusal struct {
	status       int
	kind, detail string
}

// refuse returns a refusal with the problem type Plain. The detail must not contain
// text from a client.
func refuse(status int, detail string) *refusal { return &refusal{status, problem.Plain, detail} }

// write writes the refusal as the response.
func (r *refusal) write(w http.ResponseWriter) {
	w.Header()[decisionField] = failed
	problem.Write(w, problem.Problem{Type: r.kind, Status: r.status, Detail: r.detail})
}

// awaitTurn waits until an allowed request reaches its turn in the queue. It returns
// false if the proxy has disconnected before. It removes the server's write timeout for
// this response. This is safe because the length of the queue limits the wait, and the
// response is small.
func (c *call) awaitTurn(ctx context.Context, w http.ResponseWriter) bool {
	// Fails only if the writer has no deadlines, and thus no timeout.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	return c.config.Await(ctx, &c.answer) == nil
}
