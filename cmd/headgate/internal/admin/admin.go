// Package admin is the admin API of the service: a JSON API under /admin/v1 to inspect
// and change the state of keys and the overrides, and also metrics, profiles, the active
// configuration and the keys that are denied most often. The package controls access to
// this content, and its options supply the content. docs/reference/admin-api.md is the
// documentation for users.
//
// # Access
//
// If tokens are configured, requests must have the header field “Authorization: Bearer
// TOKEN”, and the token must have the scope of the operation. Without tokens, the
// listener must be on a loopback address, which the caller of the package has to ensure.
// The API then accepts a request only if its Host is this machine and it does not come
// from a page of another site, so that no page in a local browser can use the API.
// /livez and /readyz require no token, because they return no more than they do on the
// HTTP API. Neither do Pages, which contain no data.
package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

// The default and the maximum number of keys that /debug/top-denied returns.
const (
	defaultShown = 20
	maxShown     = 1000
)

// Options are the content of the API. If a field is nil, its path does not exist.
type Options struct {
	Gate *access.Gate // authenticates the clients; nil means that no token is required
	API  *API         // content of the JSON API
	// Pages are static pages by path, which require no token. A path that ends in a slash
	// includes all paths below it.
	Pages   map[string]http.Handler
	Health  http.Handler                    // serves /livez and /readyz
	Metrics http.Handler                    // serves /metrics
	Config  func(io.Writer) error           // writes the active configuration, without secrets, for /debug/config
	Top     func(n int) any                 // returns the n keys that are denied most often, as a value for JSON
	Hash    func(policy, key string) string // returns the hash that represents a key in the result of Top
	Lines   map[string]func() []string      // functions that return lines of text, by path
}

// Handler serves the admin API. It is created with [New] and may be used concurrently.
type Handler struct {
	opts   Options
	gate   *access.Gate
	mux    http.ServeMux
	public http.ServeMux
	pages  http.ServeMux
	paths  []string
}

// Local is the client of a listener without tokens. Such a listener is on a loopback
// address.
var Local = access.Client{Name: "local", Scopes: []access.Scope{access.Read, access.Write}}

// New returns the admin API. opts must not be nil.
func New(opts *Options) *Handler {
	h := &Handler{opts: *opts, gate: cmp.Or(opts.Gate, access.NewGate(Local))}
	h.add("/debug/pprof/", http.HandlerFunc(pprof.Index))
	h.mux.HandleFunc("GET /debug/pprof/cmdline", serveCmdline)
	h.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	h.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	h.mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	h.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	if opts.Metrics != nil {
		h.add("/metrics", opts.Metrics)
	}
	if opts.Config != nil {
		h.add("/debug/config", http.HandlerFunc(h.config))
	}
	if opts.Top != nil {
		h.add("/debug/top-denied", http.HandlerFunc(h.top))
	}
	for path, lines := range opts.Lines {
		h.add(path, serveLines(lines))
	}
	if opts.Health != nil {
		h.public.Handle("/livez", opts.Health)
		h.public.Handle("/readyz", opts.Health)
		h.paths = append(h.paths, "/livez", "/readyz")
	}
	for path, page := range opts.Pages {
		h.pages.Handle(path, page)
		h.paths = append(h.paths, strings.TrimPrefix(path, "GET "))
	}
	h.mux.HandleFunc("GET /{$}", h.index)
	if opts.API != nil {
		for i := range operations {
			h.paths = append(h.paths, operations[i].path)
		}
	}
	return h
}

// add registers a handler for GET and HEAD requests to a path.
func (h *Handler) add(path string, handler http.Handler) {
	h.mux.Handle("GET "+path, handler)
	h.paths = append(h.paths, path)
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if handler, pattern := h.public.Handler(r); pattern != "" {
		handler.ServeHTTP(w, r)
		return
	}
	if !h.gate.HasTokens() {
		detail := ""
		switch {
		case !localaccess.Host(r.Host):
			detail = "the admin API has no token; it accepts requests for localhost only"
		case localaccess.CrossSite(r):
			detail = "the admin API has no token; it rejects requests from pages of other sites"
		}
		if detail != "" {
			writeFailure(w, &failure{status: http.StatusForbidden, detail: detail})
			return
		}
	}
	if page, pattern := h.pages.Handler(r); pattern != "" {
		page.ServeHTTP(w, r)
		return
	}
	if h.opts.API != nil && strings.HasPrefix(r.URL.Path, apiPrefix) {
		h.serveAPI(w, r)
		return
	}
	if _, ok := h.gate.Authorize(w, r, access.Read); ok {
		h.mux.ServeHTTP(w, r)
	}
}

// serveCmdline replaces pprof.Cmdline. It returns only the program's name, because the
// arguments may contain passwords.
func serveCmdline(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, os.Args[0])
}

func (h *Handler) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, strings.Join(h.paths, "\n")+"\n")
}

func (h *Handler) config(w http.ResponseWriter, _ *http.Request) {
	var text bytes.Buffer
	if err := h.opts.Config(&text); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(text.Bytes())
}

// top serves the keys that are denied most often. With the query parameter key, it
// serves the hash of that key instead.
func (h *Handler) top(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	if query.Has("key") && h.opts.Hash != nil {
		writeJSON(w, map[string]string{"policy": query.Get("policy"), "hash": h.opts.Hash(query.Get("policy"), query.Get("key"))})
		return
	}
	n, err := strconv.Atoi(query.Get("n"))
	if err != nil || n < 1 {
		n = defaultShown
	}
	writeJSON(w, map[string]any{"denied": h.opts.Top(min(n, maxShown))})
}

func writeJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // fails only if the client has disconnected
}

func serveLines(lines func() []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, line := range lines() {
			_, _ = io.WriteString(w, line+"\n")
		}
	})
}
