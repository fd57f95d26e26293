// Package admin is the service's door for who runs it: metrics, profiles, what is in force, and who is denied most. It knows none of them:
// it is given what answers, and keeps strangers out. docs/operations.md says it all to users.
//
// # Who may ask
//
// With a token, whoever sends it as “Authorization: Bearer TOKEN”. Without one the door must be on this machine alone, which is for who
// opens it to see to; it then answers only requests for this machine by name or address, and none that another site's page has a browser
// make, so that no page in a browser here can ask. /livez and /readyz are for everybody: they say no more than they do at the door for HTTP.
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

// Bounds on how many keys are shown.
const (
	usuallyShown = 20
	mostShown    = 1000
)

// Options are what the door answers with. What is nil is not there.
type Options struct {
	Token   string                          // what operators must know; empty: nothing
	Health  http.Handler                    // answers /livez and /readyz
	Metrics http.Handler                    // answers /metrics
	Config  func(io.Writer) error           // writes what is in force, without secrets
	Top     func(n int) any                 // the keys that are denied most, as JSON
	Hash    func(policy, key string) string // what stands for a key there
	Lines   map[string]func() []string      // paths that answer with lines of text
}

// Handler answers the door's paths. It is made with [New] and may be used concurrently.
type Handler struct {
	opts   Options
	token  [sha256.Size]byte
	mux    http.ServeMux
	public http.ServeMux
	paths  []string
}

// New makes the door. opts is not nil.
func New(opts *Options) *Handler {
	h := &Handler{opts: *opts, token: sha256.Sum256([]byte(opts.Token))}
	h.add("/debug/pprof/", http.HandlerFunc(pprof.Index))
	h.mux.HandleFunc("GET /debug/pprof/cmdline", program)
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
		h.add(path, linesOf(lines))
	}
	if opts.Health != nil {
		h.public.Handle("/livez", opts.Health)
		h.public.Handle("/readyz", opts.Health)
		h.paths = append(h.paths, "/livez", "/readyz")
	}
	h.mux.HandleFunc("GET /{$}", h.index)
	return h
}

// add has a path answered, for reading only.
func (h *Handler) add(path string, handler http.Handler) {
	h.mux.Handle("GET "+path, handler)
	h.paths = append(h.paths, path)
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if handler, pattern := h.public.Handler(r); pattern != "" {
		handler.ServeHTTP(w, r)
		return
	}
	switch {
	case h.opts.Token != "" && !h.knows(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="headgate"`)
		http.Error(w, "this door needs its token: Authorization: Bearer TOKEN", http.StatusUnauthorized)
	case h.opts.Token == "" && !localaccess.Host(r.Host):
		http.Error(w, "this door has no token, and answers requests for localhost only", http.StatusForbidden)
	case h.opts.Token == "" && localaccess.CrossSite(r):
		http.Error(w, "this door has no token, and answers no page of another site", http.StatusForbidden)
	default:
		h.mux.ServeHTTP(w, r)
	}
}

// knows reports whether a request holds the token. How long that takes says nothing of it.
func (h *Handler) knows(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], h.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// program stands in for pprof.Cmdline: the arguments may hold passwords.
func program(w http.ResponseWriter, _ *http.Request) {
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

// top answers with the keys that are denied most, or with what stands for one.
func (h *Handler) top(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	if query.Has("key") && h.opts.Hash != nil {
		writeJSON(w, map[string]string{"policy": query.Get("policy"), "hash": h.opts.Hash(query.Get("policy"), query.Get("key"))})
		return
	}
	n, err := strconv.Atoi(query.Get("n"))
	if err != nil || n < 1 {
		n = usuallyShown
	}
	writeJSON(w, map[string]any{"denied": h.opts.Top(min(n, mostShown))})
}

func writeJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client is gone, if this fails
}

func linesOf(lines func() []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, line := range lines() {
			_, _ = io.WriteString(w, line+"\n")
		}
	})
}
