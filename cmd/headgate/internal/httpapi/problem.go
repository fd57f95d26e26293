package httpapi

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/problem"
)

// writeProblem writes a problem. A 503 has Retry-After: 1, because no store reports when
// it will recover.
func writeProblem(w http.ResponseWriter, status int, detail, field string) {
	kind := problem.Plain
	if status == http.StatusServiceUnavailable {
		kind = problem.ReducedCapacity
		w.Header().Set("Retry-After", "1")
	}
	problem.Write(w, problem.Problem{Type: kind, Status: status, Detail: detail, Field: field})
}

// statuses maps the engine's kinds of error to HTTP statuses.
var statuses = [...]int{
	engine.StoreFailure:   http.StatusServiceUnavailable,
	engine.InvalidRequest: http.StatusBadRequest,
	engine.UnknownPolicy:  http.StatusNotFound,
}

// writeError writes the response to a request that was not decided.
func writeError(w http.ResponseWriter, r *request, err error) {
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

// timeoutWriteTime is how long a client whose body timed out may take to read the
// response. The server's write timeout may already have passed.
const timeoutWriteTime = time.Second

// writeBodyError writes the response to a request whose body could not be read.
func (h *Handler) writeBodyError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errTooLarge):
		writeProblem(w, http.StatusRequestEntityTooLarge, h.tooLarge, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		// A writer that does not support deadlines has no timeout either.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeoutWriteTime))
		writeProblem(w, http.StatusRequestTimeout, "the body was not received in time", "")
	default:
		writeProblem(w, http.StatusBadRequest, "the body could not be read", "")
	}
}
