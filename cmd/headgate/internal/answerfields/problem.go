package answerfields

import (
	"net/http"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// statuses maps the engine's error kinds to HTTP statuses.
var statuses = [...]int{
	engine.StoreFailure:   http.StatusServiceUnavailable,
	engine.InvalidRequest: http.StatusBadRequest,
	engine.UnknownPolicy:  http.StatusNotFound,
	engine.UnknownHold:    http.StatusNotFound,
	engine.ExpiredHold:    http.StatusGone,
	engine.HoldConflict:   http.StatusConflict,
	// Not 429: a client would take it for a denial, and wait. To open another hold, it
	// must first end some.
	engine.TooManyHolds: http.StatusConflict,
}

// StatusOf returns the HTTP status of a response for an error of the engine.
func StatusOf(kind engine.ErrorKind) int { return statuses[kind] }

// Sentence returns the text of an error as a whole sentence; see [engine.Reason].
func Sentence(text string) string {
	if rest, ok := strings.CutPrefix(text, engine.ErrInvalidRequest.Error()+": "); ok {
		return rest
	}
	switch word, _, _ := strings.Cut(text, " "); word {
	case "invalid", "unknown":
		return "the request has an " + text
	case "unsupported:":
		return "the request is " + text
	case "hold":
		return "the " + text
	case "too":
		return "there are " + text
	}
	return text
}
