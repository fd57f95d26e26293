// Package demo is a page on which a person sees what each algorithm does: all of them side by side on the same traffic, live.
//
// The page shows what the limiter answered and computes nothing itself. Each open page has a session of its own on the server,
// which makes the traffic, asks a [headgate.Limiter] for each algorithm over the store that the handler was given, one request
// after another at the store's own clock, and sends what was decided as server-sent events. A session ends with its stream.
//
// All that the page loads is embedded and comes from the same origin; its Content-Security-Policy allows nothing else. Its paths
// are relative, so a [Handler] can be mounted under any prefix with [net/http.StripPrefix].
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

// Bounds, unless [Options] say otherwise.
const (
	DefaultMaxSessions = 32               // pages that are open at once
	DefaultIdleTimeout = 15 * time.Minute // without anything being pressed
)

// Bounds on what a page can ask for.
const (
	maxBurst      = 1000   // requests of one click
	maxStreamRate = 10_000 // requests a second of one page
	maxTotalRate  = 40_000 // requests a second of all pages
	minStreamRate = 0.1
)

// Options are a handler's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Store is what the page calls the store: its kind, without address and password. Empty means “memory”.
	Store string
	// OwnStore makes a small store that nobody else sees, for what is shown with several of them and for the table without a
	// script. It is needed; whoever called it closes the store.
	OwnStore func() headgate.Store
	// CheckURL is where the curl line on the page goes; empty means that of a service on this machine,
	// http://127.0.0.1:8080/v1/check.
	CheckURL string
	// Hosts are names, beside localhost and literal addresses, under which the page may be reached. A request under another is
	// refused, so that no foreign name can be pointed at this server.
	Hosts []string
	// MaxSessions is how many pages can be open at once; 0 means [DefaultMaxSessions].
	MaxSessions int
	// IdleTimeout ends the session of a page on which nothing was pressed for so long; 0 means [DefaultIdleTimeout].
	IdleTimeout time.Duration
	// Log hears of sessions; nil means nobody does. It never hears of a key.
	Log *slog.Logger
}

// Handler serves the page. It is made with [New] and may be used concurrently. [Handler.Close] ends the sessions.
type Handler struct {
	store    headgate.Store
	opts     Options
	glance   []glance
	routes   http.Handler
	rates    atomic.Int64 // requests a second of all streams, rounded up
	mu       sync.Mutex
	sessions map[string]*session
	closed   bool
	open     sync.WaitGroup // streams
}

// New makes the page over store, which stays the caller's. It refuses options that cannot work. It does no I/O. opts may not be
// nil: OwnStore is needed.
func New(store headgate.Store, opts *Options) (*Handler, error) {
	if store == nil || opts == nil || opts.OwnStore == nil {
		return nil, errors.New("demo: a store and Options.OwnStore are needed")
	}
	if opts.MaxSessions < 0 || opts.IdleTimeout < 0 {
		return nil, fmt.Errorf("demo: MaxSessions is %d and IdleTimeout %v; accepted are 0 (the default) and more",
			opts.MaxSessions, opts.IdleTimeout)
	}
	h := &Handler{store: store, opts: *opts, sessions: make(map[string]*session)}
	h.setDefaults()
	var err error
	if h.glance, err = atAGlance(h.opts.OwnStore); err != nil {
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

// ServeHTTP answers one request; of a stream of events, when it ends.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.routes.ServeHTTP(w, r) }

// Close ends every session and waits for it. Later streams are refused.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	for _, s := range h.sessions {
		s.end()
	}
	h.mu.Unlock()
	h.open.Wait()
}

// routing is where each path goes.
func (h *Handler) routing() (*http.ServeMux, error) {
	mux := http.NewServeMux()
	page, err := h.page()
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /{$}", page)
	mux.HandleFunc("GET /events", h.events)
	mux.HandleFunc("POST /act", h.act)
	mux.HandleFunc("GET /state", h.state)
	return mux, addAssets(mux)
}
