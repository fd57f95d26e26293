// Package admin is the admin API of the service: metrics, profiles, the active
// configuration and the top denied keys. Its options supply the content; the package
// itself only controls access. docs/operations.md documents it for users.
//
// # Access
//
// With a token, requests must send “Authorization: Bearer TOKEN”. Without one, the
// listener must be on a loopback address, which the caller of the package ensures. The
// API then accepts only requests whose Host is this machine, and none that a page of
// another site makes, so that no page in a local browser can read it. /livez and /readyz
// need no token: they return no more than on the HTTP API.
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

// The default and the maximum number of keys in /debug/top-denied.
const (
	defaultShown = 20
	maxShown     = 1000
)

// Options are the content of the API. A nil field removes its path.
type Options struct {
	Token   string                          // required of every request; empty means no token
	Health  http.Handler                    // answers /livez and /readyz
	Metrics http.Handler                    // answers /metrics
	Config  func(io.Writer) error           // writes the active configuration, without secrets
	Top     func(n int) any                 // returns the n keys that are denied most, for JSON
	Hash    func(policy, key string) string // returns the hash that replaces a key in Top
	Lines   map[string]func() []string      // paths that return lines of text
}

// Handler serves the admin API. It is created with [New] and may be used concurrently.
type Handler struct {
	opts   Options
	token  [sha256.Size]byte
	mux    http.ServeMux
	public http.ServeMux
	paths  []string
}

// New returns the admin API. opts is not nil.
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

// add registers a path for GET and HEAD.
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

// hasToken reports whether a request has the token, in constant time.
func (h *Handler) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// serveCmdline replaces pprof.Cmdline, because the arguments may contain passwords.
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

// top serves the keys that are denied most, or the hash of one key.
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
	_ = enc.Encode(v) // fails only if the client is gone
}

func serveLines(lines func() []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, line := range lines() {
			_, _ = io.WriteString(w, line+"\n")
		}
	})
}
