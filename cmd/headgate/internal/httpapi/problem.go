package httpapi

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/answerfields"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/problem"
)

// writeProblem writes a problem as the response. A 503 response always has Retry-After:
// 1, because stores do not report when they will recover.
func writeProblem(w http.ResponseWriter, status int, detail, field string) {
	kind := problem.Plain
	if status == http.StatusServiceUnavailable {
		kind = problem.ReducedCapacity
		w.Header().Set("Retry-After", "1")
	}
	problem.Write(w, problem.Problem{Type: kind, Status: status, Detail: detail, Field: field})
}

// writeError writes the response for a request for which no decision was made.
func writeError(w http.ResponseWriter, r *request, err error) {
	if input := (*inputError)(nil); errors.As(err, &input) {
		writeProblem(w, http.StatusBadRequest, input.detail, input.field)
		return
	}
	kind, field := engine.ErrorKindOf(err), ""
	if check := (*engine.CheckError)(nil); errors.As(err, &check) {
		err, field = check.Err, r.path(check.Index, check.Field)
	}
	detail := answerfields.Sentence(engine.Reason(err))
	if name := kind.HoldError(); name != "" {
		problem.Write(w, problem.Problem{Type: problem.Plain, Status: answerfields.StatusOf(kind), Detail: detail, Error: name})
		return
	}
	writeProblem(w, answerfields.StatusOf(kind), detail, field)
}

// timeoutWriteTime is the write timeout of the response to a client whose body was not
// received in time. It replaces the server's write timeout, which may have passed
// already.
const timeoutWriteTime = time.Second

// writeBodyError writes the response for a request whose body could not be read.
func (h *Handler) writeBodyError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errTooLarge):
		writeProblem(w, http.StatusRequestEntityTooLarge, h.tooLarge, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		// A writer that does not support deadlines also has no timeout.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeoutWriteTime))
		writeProblem(w, http.StatusRequestTimeout, "the body was not received in time", "")
	default:
		writeProblem(w, http.StatusBadRequest, "the body could not be read", "")
	}
}
