package httpapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"

	"github.com/headgate/headgate/service/engine"
)

// problem is the body of every answer that holds no decision, as RFC 9457 has it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Field  string `json:"field,omitempty"` // where in the body
}

// reducedCapacity is the type of a problem that is ours and not the client's, and plainType that of one which its status explains.
const (
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	plainType       = "about:blank"
)

func writeProblem(w http.ResponseWriter, status int, detail, field string) {
	kind := plainType
	if status == http.StatusServiceUnavailable {
		kind = reducedCapacity
		w.Header().Set("Retry-After", "1") // no store says when it will be back
	}
	body, _ := json.Marshal(problem{kind, http.StatusText(status), status, detail, field}) // strings always can be
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone, if this fails
}

// statuses are the engine's kinds of error in this door's words.
var statuses = [...]int{
	engine.Undecided:     http.StatusServiceUnavailable,
	engine.BadInput:      http.StatusBadRequest,
	engine.UnknownPolicy: http.StatusNotFound,
}

// refuse answers a request that was not decided.
func refuse(w http.ResponseWriter, r *request, err error) {
	if input := (*inputError)(nil); errors.As(err, &input) {
		writeProblem(w, http.StatusBadRequest, input.detail, input.field)
		return
	}
	status, field := statuses[engine.KindOf(err)], ""
	if check := (*engine.CheckError)(nil); errors.As(err, &check) {
		err, field = check.Err, r.path(check.Index, check.Field)
	}
	writeProblem(w, status, engine.Reason(err), field)
}

// refuseBody answers a request whose body could not be read.
func (h *Handler) refuseBody(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errTooLarge):
		writeProblem(w, http.StatusRequestEntityTooLarge, h.tooLarge, "")
	case errors.Is(err, os.ErrDeadlineExceeded):
		writeProblem(w, http.StatusRequestTimeout, "the body did not come in time", "")
	default:
		writeProblem(w, http.StatusBadRequest, "the body could not be read", "")
	}
}
