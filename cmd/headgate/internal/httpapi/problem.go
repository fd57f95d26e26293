package httpapi

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/problem"
)

// writeProblem answers with a problem. A 503 is ours and not the client's, and no store says when it will be back.
func writeProblem(w http.ResponseWriter, status int, detail, field string) {
	kind := problem.Plain
	if status == http.StatusServiceUnavailable {
		kind = problem.ReducedCapacity
		w.Header().Set("Retry-After", "1")
	}
	problem.Write(w, problem.Problem{Type: kind, Status: status, Detail: detail, Field: field})
}

// statuses are the engine's kinds of error in this door's words.
var statuses = [...]int{
	engine.StoreFailure:   http.StatusServiceUnavailable,
	engine.InvalidRequest: http.StatusBadRequest,
	engine.UnknownPolicy:  http.StatusNotFound,
}

// refuse answers a request that was not decided.
func refuse(w http.ResponseWriter, r *request, err error) {
	if input := (*inputError)(nil); errors.As(err, &input) {
		writeProblem(w, http.StatusBadRequest, input.detail, input.field)
		return
	}
	status, field := statuses[engine.ErrorKindOf(err)], ""
	if check := (*engine.CheckError)(nil); errors.As(err, &check) {
		err, field = check.Err, r.path(check.Index, check.Field)
	}
	writeProblem(w, status, engine.Reason(err), field)
}

// lastWord is how long a client that did not send its body in time may take to read why: by then an answer may be overdue as well.
const lastWord = time.Second

// refuseBody answers a request whose body could not be read.
func (h *Handler) refuseBody(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errTooLarge):
		writeProblem(w, http.StatusRequestEntityTooLarge, h.tooLarge, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWord)) // where there are no deadlines, there is no bound either
		writeProblem(w, http.StatusRequestTimeout, "the body did not come in time", "")
	default:
		writeProblem(w, http.StatusBadRequest, "the body could not be read", "")
	}
}
