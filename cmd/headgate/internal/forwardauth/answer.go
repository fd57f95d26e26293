package forwardauth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/problem"
)

// decisionField says in one word what came of a request; its name has the form that net/http keeps fields in.
const decisionField = "X-Ratelimit-Decision"

// The words, and other values that are the same in every answer; not to be changed.
var (
	allowed = []string{"allow"}
	denied  = []string{"deny"}
	failed  = []string{"error"}
	noStore = []string{"no-store"}
)

// denyStatuses are what denials may be told by: to most proxies, to nginx, and to those that know neither.
var denyStatuses = map[string]int{
	"429": http.StatusTooManyRequests, "403": http.StatusForbidden, "503": http.StatusServiceUnavailable,
}

// denyStatus is the status of a denial: 429, unless the query's parameter deny is another. Other parameters are left alone, as a
// proxy may have added the client's own.
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
			return 0, refuse(http.StatusBadRequest, "deny, the status of denials, is one of 403, 429 and 503, and stands there once")
		}
		status = denyStatuses[value]
	}
	if status == 0 {
		status = http.StatusTooManyRequests
	}
	return status, nil
}

// allow says that the request may go ahead: this one, and no other that a cache would answer by the same word.
func allow(w http.ResponseWriter) {
	h := w.Header()
	h[decisionField], h["Cache-Control"] = allowed, noStore
	w.WriteHeader(http.StatusOK)
}

// writeDenial says that the request may not go ahead. The fields of the decision are there already.
func writeDenial(w http.ResponseWriter, status int, a *engine.Answer) {
	w.Header()[decisionField] = denied
	problem.Write(w, problem.Problem{Type: problem.QuotaExceeded, Status: status, Violated: a.DeniedBy})
}

// refusal is why nothing was decided.
type refusal struct {
	status       int
	kind, detail string
}

// refuse makes a refusal of no particular type. The detail never holds what a client sent.
func refuse(status int, detail string) *refusal { return &refusal{status, problem.Plain, detail} }

// write answers with the refusal.
func (no *refusal) write(w http.ResponseWriter) {
	w.Header()[decisionField] = failed
	problem.Write(w, problem.Problem{Type: no.kind, Status: no.status, Detail: no.detail})
}

// awaitTurn holds an admitted request until its turn in the queue has come, and reports whether the proxy has waited. The server's
// write timeout is lifted: the queue's length bounds the wait, and the answer is small.
func (c *call) awaitTurn(ctx context.Context, w http.ResponseWriter) bool {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a writer without deadlines has no timeout either
	return c.holds.Await(ctx, &c.answer) == nil
}
