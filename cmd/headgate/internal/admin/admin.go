// Package admin is the admin API of the service: metrics, profiles, the active
// configuration and the keys that are denied most often. The package controls access to
// this content, and its options supply the content. docs/operate/stores.md is the
// documentation for users.
//
// # Access
//
// If a token is configured, requests must have the header field “Authorization: Bearer
// TOKEN”. Without a token, the listener must be on a loopback address, which the caller
// of the package has to ensure. The API then accepts a request only if its Host is this
// machine and it does not come from a page of another site, so that no page in a local
// browser can read the API. /livez and /readyz require no token, because they return no
// more than they do on the HTTP API.
package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"net/http/pprof"
	"os"
	"strconv"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

// The default and the maximum number of keys that /debug/top-denied returns.
const (
	defaultShown = 20
	maxShown     = 1000
)

// Options are the content of the API. If a field is nil, its path does not exist.
type Options struct {
	Token   string                          // token that every request must have; empty means that no token is required
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
	token  [sha256.Size]byte
	mux    http.ServeMux
	public http.ServeMux
	paths  []string
}

// New returns the admin API. opts must not be nil.
func New(opts *Options) *Handler {
	h := &Handler{opts: *opts, token: sha256.Sum256([]byte(opts.Token))}
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
	h.mux.HandleFunc("GET /{$}", h.index)
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
	switch {
	case h.opts.Token != "" && !h.hasToken(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="headgate"`)
		http.Error(w, "the admin API requires its token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
	case h.opts.Token == "" && !localaccess.Host(r.Host):
		http.Error(w, "the admin API has no token; it accepts requests for localhost only", http.StatusForbidden)
	case h.opts.Token == "" && localaccess.CrossSite(r):
		http.Error(w, "the admin API has no token; it rejects requests from pages of other sites", http.StatusForbidden)
	default:
		h.mux.ServeHTTP(w, r)
	}
}

// hasToken reports whether a request has the token. It compares in constant time.
func (h *Handler) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
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
