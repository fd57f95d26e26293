// Package httpapi is the service's own door for HTTP: check, peek, refund and reset under /v1, the two health paths, and the OpenAPI
// document that describes them. It knows its protocol and nothing of arithmetic or storage.
package httpapi

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
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
	// Health answers /livez and /readyz; nil means one with default options.
	Health *Health
	// Mounted are the handlers of other APIs on this listener, by path; a path that ends with a slash includes all paths below
	// it, and of several the longest counts. It must not be changed afterwards.
	Mounted map[string]http.Handler
}

// Handler answers the paths of the HTTP API. It is made with [New] and may be used concurrently.
type Handler struct {
	engine       *engine.Engine
	health       *Health
	fields       *answerfields.Writer
	maxBodyBytes int
	tooLarge     string

	routes   map[string]http.Handler // by whole path
	subtrees []subtree               // the longest first
	notFound string
}

// subtree is the handler of all paths that begin with prefix.
type subtree struct {
	prefix  string
	handler http.Handler
}

// New makes the HTTP API of e. opts may be nil.
func New(e *engine.Engine, opts *Options) *Handler {
	opts = cmp.Or(opts, &Options{})
	h := &Handler{engine: e, health: opts.Health, fields: answerfields.New(), maxBodyBytes: cmp.Or(opts.MaxBodyBytes, DefaultMaxBodyBytes)}
	if h.health == nil {
		h.health = NewHealth(e, nil)
	}
	h.tooLarge = fmt.Sprintf("the body has more than %d bytes", h.maxBodyBytes)
	h.route(opts.Mounted)
	return h
}

// route fills the tables of paths. They stand in for [http.ServeMux], which redirects a path with a double slash, where this
// API answers 404 and a mounted handler gets the path as it was sent.
func (h *Handler) route(mounted map[string]http.Handler) {
	h.routes = map[string]http.Handler{"/livez": h.health, "/readyz": h.health, "/openapi.json": reading(describe)}
	verbs := map[string]headgate.Verb{
		"/v1/check": headgate.Take, "/v1/peek": headgate.Peek, "/v1/refund": headgate.Refund, "/v1/reset": headgate.Reset,
	}
	for path, verb := range verbs {
		h.routes[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.decide(w, r, verb) })
	}
	paths := []string{"/v1/check", "/v1/peek", "/v1/refund", "/v1/reset", "/livez", "/readyz", "/openapi.json"}
	for _, path := range slices.Sorted(maps.Keys(mounted)) {
		paths = append(paths, path)
		if strings.HasSuffix(path, "/") {
			h.subtrees = slices.Insert(h.subtrees, 0, subtree{path, mounted[path]}) // a longer one sorts behind its own prefix
		} else if h.routes[path] == nil {
			h.routes[path] = mounted[path]
		}
	}
	h.notFound = "there are " + strings.Join(paths, ", ")
}

// Drain makes /readyz report that this instance is going away, and asks clients to close their connections. Requests are still
// answered.
func (h *Handler) Drain() { h.health.Drain() }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.turnAway(w)
	if handler := h.routes[r.URL.Path]; handler != nil {
		handler.ServeHTTP(w, r)
		return
	}
	for _, t := range h.subtrees {
		if strings.HasPrefix(r.URL.Path, t.prefix) {
			t.handler.ServeHTTP(w, r)
			return
		}
	}
	writeProblem(w, http.StatusNotFound, h.notFound, "")
}

// turnAway asks the client to use another connection, if this instance is going away.
func (h *Handler) turnAway(w http.ResponseWriter) {
	if h.health.draining.Load() {
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
	holds := h.engine.ActiveConfig()
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

//go:embed openapi.json
var openAPIText string

// openAPI is the OpenAPI document of this API and those mounted beside it. It accepts the algorithms that package algo lists, and the
// empty name.
var openAPI = []byte(strings.Replace(openAPIText, `"ALGORITHMS"`, `"", "`+strings.Join(algo.Names(), `", "`)+`"`, 1))

// describe answers with the OpenAPI document, which needs neither the engine nor the store.
func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(openAPI)
}

// reading is a handler that answers GET and HEAD with next, and other methods with 405.
func reading(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			wrongMethod(w, "GET, HEAD")
			return
		}
		next(w, r)
	})
}

func wrongMethod(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	writeProblem(w, http.StatusMethodNotAllowed, "this path takes "+allowed, "")
}
