// Package httpapi is the service's own door for HTTP: check, peek, refund and reset under /v1, the two health paths, and the OpenAPI
// document that describes them. It knows its protocol and nothing of arithmetic or storage.
package httpapi

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/answerfields"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// DefaultMaxBodyBytes is the longest body, unless [Options] say otherwise.
const DefaultMaxBodyBytes = 64 << 10

// mostKept is how many bytes of a buffer are kept for the next request.
const mostKept = 64 << 10

// Options are a handler's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// MaxBodyBytes is the longest body of a request, in bytes; 0 means [DefaultMaxBodyBytes].
	MaxBodyBytes int
	// Store is what /readyz calls the store.
	Store string
	// Config says how many configurations have taken effect, and whether the one that lies there now was refused; /readyz repeats it.
	// nil means that there is no file.
	Config func() (generation uint64, refused bool)
	// ControlPlane says whether the control plane of Envoy's rules is connected, and whether what holds is of it; /readyz repeats it. nil
	// means that there is none.
	ControlPlane func() (connected, configured bool)
	// Mounted are handlers of other doors that stand at this one, each by its path; one that ends with a slash is for all paths below it.
	// It must not be changed afterwards.
	Mounted map[string]http.Handler
}

// Handler answers the door's paths. It is made with [New] and may be used concurrently.
type Handler struct {
	engine       *engine.Engine
	fields       *answerfields.Writer
	mounted      map[string]http.Handler
	maxBodyBytes int
	tooLarge     string
	store        string
	config       func() (uint64, bool)
	controlPlane func() (bool, bool)
	draining     atomic.Bool
}

// New makes the door of e. opts may be nil.
func New(e *engine.Engine, opts *Options) *Handler {
	h := &Handler{engine: e, fields: answerfields.New(), maxBodyBytes: DefaultMaxBodyBytes}
	if opts != nil {
		h.store, h.config, h.controlPlane, h.mounted = opts.Store, opts.Config, opts.ControlPlane, opts.Mounted
		if opts.MaxBodyBytes != 0 {
			h.maxBodyBytes = opts.MaxBodyBytes
		}
	}
	h.tooLarge = fmt.Sprintf("the body has more than %d bytes", h.maxBodyBytes)
	return h
}

// Drain makes /readyz say that this instance is going away, and asks clients to close their connections. Requests are still
// answered.
func (h *Handler) Drain() { h.draining.Store(true) }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.turnAway(w)
	switch r.URL.Path {
	case "/v1/check":
		h.decide(w, r, headgate.Take)
	case "/v1/peek":
		h.decide(w, r, headgate.Peek)
	case "/v1/refund":
		h.decide(w, r, headgate.Refund)
	case "/v1/reset":
		h.decide(w, r, headgate.Reset)
	case "/livez":
		h.live(w, r)
	case "/readyz":
		h.ready(w, r)
	case "/openapi.json":
		describe(w, r)
	default:
		if handler := h.mountedAt(r.URL.Path); handler != nil {
			handler.ServeHTTP(w, r)
			return
		}
		paths := append([]string{"/v1/check", "/v1/peek", "/v1/refund", "/v1/reset", "/livez", "/readyz", "/openapi.json"},
			slices.Sorted(maps.Keys(h.mounted))...)
		writeProblem(w, http.StatusNotFound, "there are "+strings.Join(paths, ", "), "")
	}
}

// mountedAt is the handler of another door that stands at a path or above it; nil if there is none.
func (h *Handler) mountedAt(path string) http.Handler {
	if handler := h.mounted[path]; handler != nil {
		return handler
	}
	for at, handler := range h.mounted {
		if strings.HasSuffix(at, "/") && strings.HasPrefix(path, at) {
			return handler
		}
	}
	return nil
}

// turnAway asks the client to use another connection, if this instance is going away.
func (h *Handler) turnAway(w http.ResponseWriter) {
	if h.draining.Load() {
		w.Header().Set("Connection", "close")
	}
}

// Values of header fields that are the same in every answer; not to be changed.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
)

// call is the memory of one request, kept for the next.
type call struct {
	body   []byte
	out    []byte
	in     request
	answer engine.Answer
}

var calls = sync.Pool{New: func() any { return new(call) }}

// release keeps c for another request, without the keys of this one.
func (c *call) release() {
	checks := c.in.checks[:cap(c.in.checks)]
	clear(checks)
	if cap(c.body) <= mostKept {
		calls.Put(c)
	}
}

func (h *Handler) decide(w http.ResponseWriter, r *http.Request, verb headgate.Verb) {
	if r.Method != http.MethodPost {
		wrongMethod(w, "POST")
		return
	}
	c := calls.Get().(*call)
	defer c.release()
	if err := c.read(r, h.maxBodyBytes); err != nil {
		h.refuseBody(w, err)
		return
	}
	h.turnAway(w) // the body may have taken its time
	holds := h.engine.Snapshot()
	if err := c.in.decode(string(c.body), holds.MaxChecks()); err != nil {
		refuse(w, &c.in, err)
		return
	}
	if err := holds.Decide(r.Context(), verb, c.in.checks, &c.answer); err != nil {
		refuse(w, &c.in, err)
		return
	}
	h.answer(w, c)
}

// answer writes the decision.
func (h *Handler) answer(w http.ResponseWriter, c *call) {
	header := w.Header()
	header["Content-Type"] = jsonType
	h.fields.Write(header, &c.answer)
	c.out = appendAnswer(c.out[:0], &c.answer)
	if !c.answer.Allowed {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(c.out) // the client is gone, if this fails
}

var errTooLarge = errors.New("httpapi: body too large")

// read takes the body of r into c.
func (c *call) read(r *http.Request, most int) error {
	if r.ContentLength > int64(most) {
		return errTooLarge
	}
	c.body = c.body[:0]
	for {
		if len(c.body) == cap(c.body) {
			c.body = append(c.body, 0)[:len(c.body)]
		}
		n, err := r.Body.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		switch {
		case len(c.body) > most:
			return errTooLarge
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// live answers as long as the process does; it asks nobody.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) {
	if !readMethod(w, r) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
}

func readMethod(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	wrongMethod(w, "GET, HEAD")
	return false
}

func wrongMethod(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	writeProblem(w, http.StatusMethodNotAllowed, "this path takes "+allowed, "")
}
