// Package httpapi is the HTTP API of the service: checks and holds under /v1, two paths
// for health checks, and the OpenAPI document that describes the API.
// The package implements only the protocol; the engine makes the decisions.
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
	"time"

	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/answerfields"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

// DefaultMaxBodyBytes is the default of [Options].MaxBodyBytes.
const DefaultMaxBodyBytes = 64 << 10

// maxKeptBytes is the maximum size of a body buffer that is kept for later requests.
const maxKeptBytes = 64 << 10

// maxKeptHolds is the maximum number of holds whose memory is kept for later requests,
// because every request clears it.
const maxKeptHolds = 32

// Options are the settings of a handler. A field with its zero value has the default in
// its comment; nil options mean all defaults.
type Options struct {
	// MaxBodyBytes is the maximum length of a request body, in bytes; 0 means
	// [DefaultMaxBodyBytes].
	MaxBodyBytes int
	// Health serves /livez and /readyz; nil means a [Health] with default options.
	Health *Health
	// Mounted are the handlers for other APIs on the same listener, by path. A path
	// that ends with a slash includes all paths below it. If several paths match, the
	// longest is used. The map must not be changed after the call of [New].
	Mounted map[string]http.Handler
	// Version is the version of this program, for GET /; may be empty.
	Version string
	// Guard protects the API against web pages; nil means a [Guard] for every Host. It
	// does not protect Mounted.
	Guard *Guard
	// Access authenticates clients, also those of Mounted; nil means that no token is
	// required. [ScopeOf] defines the scope of each path.
	Access *access.Gate
	// Wrap returns the handler that is used in place of the handler of an operation of
	// the API, which has a path. nil means the handler itself.
	Wrap func(path string, handler http.Handler) http.Handler
}

// Handler serves the HTTP API. It is created with [New] and may be used concurrently.
type Handler struct {
	engine       *engine.Engine
	health       *Health
	fields       *answerfields.Writer
	maxBodyBytes int
	tooLarge     string

	routes   map[string]http.Handler // by complete path
	subtrees []subtree               // longest prefix first
	notFound string
}

// subtree is the handler for all paths that begin with prefix.
type subtree struct {
	prefix  string
	handler http.Handler
}

// New returns the HTTP API for e. opts may be nil.
func New(e *engine.Engine, opts *Options) *Handler {
	opts = cmp.Or(opts, &Options{})
	h := &Handler{engine: e, health: opts.Health, fields: answerfields.New(), maxBodyBytes: cmp.Or(opts.MaxBodyBytes, DefaultMaxBodyBytes)}
	if h.health == nil {
		h.health = NewHealth(e, nil)
	}
	h.tooLarge = fmt.Sprintf("the body must have at most %d bytes", h.maxBodyBytes)
	h.route(cmp.Or(opts.Guard, NewGuard(localaccess.Hosts{}, nil)), cmp.Or(opts.Access, access.NewGate(access.Client{})), opts)
	return h
}

// route fills the tables of paths. These are used instead of [http.ServeMux], because
// it redirects a path with a double slash. Here, such a path gets status 404, and a
// mounted handler receives the path unchanged.
func (h *Handler) route(guard *Guard, gate *access.Gate, opts *Options) {
	h.routes = map[string]http.Handler{
		"/": serveAbout(opts.Version), "/livez": h.health, "/readyz": h.health, "/openapi.json": readOnly(serveOpenAPI),
	}
	var paths []string
	for _, o := range operations {
		paths = append(paths, o.path)
		serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, o) })
		handler := guard.Protect(gate.Require(ScopeOf(o.path), serve))
		if opts.Wrap != nil {
			handler = opts.Wrap(o.path, handler)
		}
		h.routes[o.path] = handler
	}
	paths = append(paths, "/livez", "/readyz", "/openapi.json")
	for _, path := range slices.Sorted(maps.Keys(opts.Mounted)) {
		paths = append(paths, path)
		mounted := gate.Require(ScopeOf(path), opts.Mounted[path])
		if strings.HasSuffix(path, "/") {
			// A longer path sorts after its prefixes, so inserting at the front puts it
			// before them.
			h.subtrees = slices.Insert(h.subtrees, 0, subtree{path, mounted})
		} else if h.routes[path] == nil {
			h.routes[path] = mounted
		}
	}
	h.notFound = "the request has an unknown path; must be one of " + strings.Join(paths, ", ")
}

// Drain makes /readyz report that this instance is shutting down, and asks clients to
// close their connections. Requests are still processed.
func (h *Handler) Drain() { h.health.Drain() }

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.closeIfDraining(w)
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

// closeIfDraining asks the client to close its connection if this instance is shutting
// down.
func (h *Handler) closeIfDraining(w http.ResponseWriter) {
	if h.health.draining.Load() {
		w.Header().Set("Connection", "close")
	}
}

// Values of header fields that all responses share. They must not be modified.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
)

// denyStatuses are the statuses that a client can select for denials. The retry layers of
// some HTTP libraries repeat a request with status 429 on their own, and some libraries
// raise an exception for every status except 2xx.
var denyStatuses = []int{http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}

// call is the memory for processing one request. It is reused for later requests.
type call struct {
	body    []byte
	out     []byte
	in      request
	answer  engine.Answer
	results []engine.Result
	opened  engine.ClientHold
	deny    int // status of a denial
	maxBody int // maximum length of a body, in bytes
}

var calls = sync.Pool{New: func() any { return new(call) }}

// release removes the keys of the request from c and returns c to the pool, unless its
// buffer is too large.
func (c *call) release() {
	clear(c.in.checks[:cap(c.in.checks)])
	if clear(c.in.holds[:cap(c.in.holds)]); cap(c.in.holds) > maxKeptHolds {
		c.in.holds = nil
	}
	c.in.id, c.opened = "", engine.ClientHold{}
	if cap(c.body) <= maxKeptBytes {
		calls.Put(c)
	}
}

// serve serves a request of one operation.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, o *operation) {
	if r.Method != http.MethodPost {
		writeMethodError(w, "POST")
		return
	}
	c := calls.Get().(*call)
	defer c.release()
	var ok bool
	if c.deny, ok = answerfields.DenyStatus(r.URL.RawQuery, "deny_status", denyStatuses...); !ok {
		writeProblem(w, http.StatusBadRequest, "the query parameter deny_status must be 200, 403, 429 or 503, and must not be repeated", "")
		return
	}
	c.maxBody = h.maxBodyBytes
	if err := c.read(r, c.maxBody); err != nil {
		h.writeBodyError(w, err)
		return
	}
	h.closeIfDraining(w) // shutdown may have begun while the body was read
	active := h.engine.ActiveConfig()
	if err := c.in.decode(string(c.body), o.accepted, active.MaxChecks(), active.MaxHoldChecks()); err != nil {
		writeError(w, &c.in, err)
		return
	}
	if err := o.run(r.Context(), active, c); err != nil {
		writeError(w, &c.in, err)
		return
	}
	h.answer(w, c, o)
}

// answer writes the response for a decision.
func (h *Handler) answer(w http.ResponseWriter, c *call, o *operation) {
	header := w.Header()
	header["Content-Type"] = jsonType
	h.fields.Write(header, &c.answer)
	c.results = c.answer.AppendResults(c.results[:0])
	c.out = appendAnswer(c.out[:0], &c.answer, c.results, time.Now())
	if o.appendFields != nil {
		c.out = o.appendFields(c.out, c)
	}
	c.out = append(c.out, '}')
	if !c.answer.Allowed {
		w.WriteHeader(c.deny)
	}
	_, _ = w.Write(c.out) // fails only if the client has disconnected
}

var errTooLarge = errors.New("httpapi: body too large")

// read reads the body of r into c.
func (c *call) read(r *http.Request, maxBytes int) error {
	if r.ContentLength > int64(maxBytes) {
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
		case len(c.body) > maxBytes:
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

// openAPI is the OpenAPI document for this API and the APIs mounted with it. The
// algorithm names in it are those in package algo, and the empty name.
var openAPI = []byte(strings.Replace(openAPIText, `"ALGORITHMS"`, `"", "`+strings.Join(algo.Names(), `", "`)+`"`, 1))

// serveOpenAPI serves the OpenAPI document. It uses neither the engine nor the store.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(openAPI)
}

// readOnly returns a handler that passes GET and HEAD requests to next, and responds to
// other methods with status 405.
func readOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeMethodError(w, "GET, HEAD")
			return
		}
		next(w, r)
	})
}

func writeMethodError(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	writeProblem(w, http.StatusMethodNotAllowed, "the method is not allowed; must be "+strings.ReplaceAll(allowed, ", ", " or "), "")
}
