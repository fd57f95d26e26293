// Package demo is a web page that compares all algorithms live on the same traffic.
//
// The page shows the decisions of the limiters and computes nothing. Each open page has
// a session on the server. The session creates the traffic and asks one
// [headgate.Limiter] for each algorithm, one request after another, at the time of the
// store that the handler was given. It sends the decisions as server-sent events. A
// session ends with its event stream.
//
// All resources of the page are embedded and come from the same origin; its
// Content-Security-Policy allows nothing else. Paths are relative, so a [Handler] can
// be mounted under any prefix with [net/http.StripPrefix].
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
)

// Default bounds of [Options].
const (
	DefaultMaxSessions = 32               // pages open simultaneously
	DefaultIdleTimeout = 15 * time.Minute // without an action of the user
)

// Bounds on actions.
const (
	maxBurst      = 1000   // requests of one click
	maxStreamRate = 10_000 // requests per second of one page
	maxTotalRate  = 40_000 // requests per second of all pages
	minStreamRate = 0.1
)

// Options are the settings of a handler. A field that is zero has its default;
// nil means all defaults.
type Options struct {
	// Store is the kind of the store on the page, without address and password. Empty
	// means “memory”.
	Store string
	// OwnStore returns a new small store, for scenarios with several stores and for the
	// table without scripts. It is required. The caller closes the store.
	OwnStore func() headgate.Store
	// CheckURL is the URL in the curl example; empty means a service on this machine,
	// http://127.0.0.1:8080/v1/check.
	CheckURL string
	// Hosts are names of the page in addition to localhost and literal addresses.
	// Requests with other Host values are rejected, as protection against DNS
	// rebinding.
	Hosts []string
	// MaxSessions is the maximum number of open pages; 0 means [DefaultMaxSessions].
	MaxSessions int
	// IdleTimeout ends the session of a page without actions; 0 means
	// [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// Log receives events of sessions, without keys; nil disables logging.
	Log *slog.Logger
}

// Handler serves the page. [New] returns one. It may be used concurrently.
// [Handler.Close] ends the sessions.
type Handler struct {
	store    headgate.Store
	opts     Options
	glance   []glance
	routes   http.Handler
	rates    atomic.Int64 // requests per second of all streams, rounded up
	mu       sync.Mutex
	sessions map[string]*session
	closed   bool
	open     sync.WaitGroup // event streams
}

// New returns a handler that uses store, which the caller closes. It returns an error
// for invalid options. It does no I/O. opts must not be nil, because OwnStore is
// required.
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

// ServeHTTP serves one request. A request for the event stream lasts as long as the
// session.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.routes.ServeHTTP(w, r) }

// Close ends every session and waits for them. Later streams are rejected.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	for _, s := range h.sessions {
		s.end()
	}
	h.mu.Unlock()
	h.open.Wait()
}

// routing returns the handler of each path.
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
	return mux, addAssets(mux)
}
