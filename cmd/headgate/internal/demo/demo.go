// Package demo is a web page that compares all algorithms live with the same traffic.
//
// The page displays the decisions of limiters and computes nothing itself. Each open
// page has a session on the server. The session creates requests and has each of them
// decided by one [headgate.Limiter] for each algorithm. The limiters use the store that
// was passed to [New], and its clock. The session sends the decisions to the page as
// server-sent events. It ends when its event stream ends.
//
// All resources of the page are embedded in the program and have the same origin; the
// Content-Security-Policy permits no others. All paths in the page are relative, so a
// [Handler] can be mounted under any prefix with [net/http.StripPrefix].
package demo

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/webpage"
)

// Defaults of the limits in [Options].
const (
	DefaultMaxSessions = 32               // maximum number of open pages
	DefaultIdleTimeout = 15 * time.Minute // maximum time without user actions
)

// Limits on what an action can request.
const (
	maxBurst      = 1000   // maximum number of requests for a click
	maxStreamRate = 10_000 // maximum number of requests per second for a page
	maxTotalRate  = 40_000 // maximum number of requests per second for all pages together
	minStreamRate = 0.1
)

// Options are the settings of a handler. A field with its zero value has the default in
// its comment. OwnStore is required.
type Options struct {
	// Store is the kind of store that the page displays, without address and password.
	// Empty means “memory”.
	Store string
	// OwnStore returns a new small store. It is required. It is called for scenarios
	// with several stores, and for the table that pages show without scripts. The
	// caller of OwnStore closes the store.
	OwnStore func() headgate.Store
	// CheckURL is the URL in the curl example. Empty means the URL of a service on this
	// machine, http://127.0.0.1:8080/v1/check.
	CheckURL string
	// Hosts are the host names under which the page can be reached, in addition to
	// localhost and IP addresses. Requests with any other Host are rejected, as
	// protection against DNS rebinding.
	Hosts []string
	// MaxSessions is the maximum number of open pages; 0 means [DefaultMaxSessions].
	MaxSessions int
	// IdleTimeout is the time without user actions after which the session of a page
	// ends; 0 means [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// Log is the logger for events of sessions. Its lines contain no keys. nil means no
	// log.
	Log *slog.Logger
}

// Handler serves the page. It is created with [New] and may be used concurrently.
// [Handler.Close] ends all sessions.
type Handler struct {
	store    headgate.Store
	opts     Options
	glance   []glance
	routes   http.Handler
	rates    atomic.Int64 // total rate of all streams, in requests per second, with each rate rounded up
	mu       sync.Mutex
	sessions map[string]*session
	closed   bool
	open     sync.WaitGroup // counts open event streams
}

// New returns a handler that uses store. The handler does not close store. New returns
// an error if the options are invalid. It does no I/O. opts must not be nil, because
// OwnStore is required.
func New(store headgate.Store, opts *Options) (*Handler, error) {
	if store == nil || opts == nil || opts.OwnStore == nil {
		return nil, errors.New("demo: store and Options.OwnStore are required")
	}
	if opts.MaxSessions < 0 || opts.IdleTimeout < 0 {
		return nil, fmt.Errorf("demo: MaxSessions is %d and IdleTimeout is %v; must be 0 (the default) or more",
			opts.MaxSessions, opts.IdleTimeout)
	}
	h := &Handler{store: store, opts: *opts, sessions: make(map[string]*session)}
	h.setDefaults()
	var err error
	if h.glance, err = computeGlance(h.opts.OwnStore); err != nil {
		return nil, err
	}
	h.routes, err = h.guarded()
	return h, err
}

func (h *Handler) setDefaults() {
	h.opts.Store = cmp.Or(h.opts.Store, "memory")
	h.opts.CheckURL = cmp.Or(h.opts.CheckURL, "http://127.0.0.1:8080/v1/check")
	h.opts.MaxSessions = cmp.Or(h.opts.MaxSessions, DefaultMaxSessions)
	h.opts.IdleTimeout = cmp.Or(h.opts.IdleTimeout, DefaultIdleTimeout)
	h.opts.Log = cmp.Or(h.opts.Log, slog.New(slog.DiscardHandler))
}

// ServeHTTP serves one request. For the event stream, it returns only when the session
// ends.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.routes.ServeHTTP(w, r) }

// Close ends all sessions and waits until they have ended. Later requests for an event
// stream are rejected.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	for _, s := range h.sessions {
		s.end()
	}
	h.mu.Unlock()
	h.open.Wait()
}

// routing returns a handler with a route for each path.
func (h *Handler) routing() (*http.ServeMux, error) {
	mux := http.NewServeMux()
	page, err := h.page()
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /{$}", page)
	mux.HandleFunc("GET /events", h.events)
	mux.HandleFunc("POST /act", h.act)
	mux.HandleFunc("GET /state", h.serveState)
	return mux, webpage.Add(mux, web)
}
