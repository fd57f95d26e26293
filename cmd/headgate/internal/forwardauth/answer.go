package forwardauth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/problem"
)

// decisionField is the header field of the decision, in the canonical form of net/http.
const decisionField = "X-Ratelimit-Decision"

// The values of header fields that are the same in every response; they must not be
// changed.
var (
	allowed = []string{"allow"}
	denied  = []string{"deny"}
	failed  = []string{"error"}
	noStore = []string{"no-store"}
)

// denyStatuses are the possible statuses of a denial: 429 for most proxies, 403 for
// nginx, 503 for proxies that support neither.
var denyStatuses = map[string]int{
	"429": http.StatusTooManyRequests, "403": http.StatusForbidden, "503": http.StatusServiceUnavailable,
}

// denyStatus returns the status of a denial: 429, or the query parameter deny. It ignores
// other parameters, because a proxy may have added those of the client.
func denyStatus(query string) (int, *refusal) {
	status := 0
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		value, ok := strings.CutPrefix(pair, "deny=")
		if !ok {
			continue
		}
		if status != 0 || denyStatuses[value] == 0 {
			return 0, refuse(http.StatusBadRequest, "the query parameter deny must be 403, 429 or 503, and must not be repeated")
		}
		status = denyStatuses[value]
	}
	if status == 0 {
		status = http.StatusTooManyRequests
	}
	return status, nil
}

// allow writes the response of an allowed request. It must not be cached: it is valid for
// this request only.
func allow(w http.ResponseWriter) {
	h := w.Header()
	h[decisionField], h["Cache-Control"] = allowed, noStore
	w.WriteHeader(http.StatusOK)
}

// writeDenial writes the response of a denied request. The rate limit fields are already
// set.
func writeDenial(w http.ResponseWriter, status int, a *engine.Answer) {
	w.Header()[decisionField] = denied
	problem.Write(w, problem.Problem{Type: problem.QuotaExceeded, Status: status, Violated: a.DeniedBy})
}

// refusal is the reason why nothing was decided.
type refusal struct {
	status       int
	kind, detail string
}

// refuse returns a refusal without a specific type. The detail never contains what a
// client sent.
func refuse(status int, detail string) *refusal { return &refusal{status, problem.Plain, detail} }

// write writes the response of the refusal.
func (r *refusal) write(w http.ResponseWriter) {
	w.Header()[decisionField] = failed
	problem.Write(w, problem.Problem{Type: r.kind, Status: r.status, Detail: r.detail})
}

// awaitTurn delays an admitted request until its turn in the queue, and reports whether
// the proxy waited. It removes the server's write timeout: the length of the queue bounds
// the wait, and the response is small.
func (c *call) awaitTurn(ctx context.Context, w http.ResponseWriter) bool {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a writer without deadlines has no timeout either
	return c.config.Await(ctx, &c.answer) == nil
}
