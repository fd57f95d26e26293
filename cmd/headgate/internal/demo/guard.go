package demo

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// policyText lets the page load what is served beside it, and nothing else: no inline script, no inline style.
const policyText = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guarded is the handler's routes behind [Guard].
func (h *Handler) guarded() (http.Handler, error) {
	mux, err := h.routing()
	if err != nil {
		return nil, err
	}
	return Guard(mux, h.opts.Hosts...), nil
}

// Guard keeps other sites' pages away from next: it answers 403 to a request that a page of another origin sent, by
// Sec-Fetch-Site or Origin, and 421 to one under a host name that is neither localhost, a literal address nor one of hosts, so
// that a foreign name pointed at this server is of no use. It sets the header fields that harden an answer in a browser.
// Clients that are no browsers, such as curl, pass.
func Guard(next http.Handler, hosts ...string) http.Handler {
	origins := http.NewCrossOriginProtection()
	guarded := origins.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		switch {
		case !ownHost(r.Host, hosts):
			http.Error(w, "this server is not reached under that name; --allow-host adds one", http.StatusMisdirectedRequest)
		case foreignStream(r):
			http.Error(w, "cross-origin request", http.StatusForbidden)
		default:
			guarded.ServeHTTP(w, r)
		}
	})
}

func harden(header http.Header) {
	header.Set("Content-Security-Policy", policyText)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// foreignStream is a page of another site that would keep a session open here, which a GET can do. Following a link is fine.
func foreignStream(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// ownHost reports whether host, with or without a port, cannot be a foreign name.
func ownHost(host string, allowed []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		slices.ContainsFunc(allowed, func(name string) bool { return strings.EqualFold(name, host) })
}

// refusal is why an action was not taken: field names the control to blame, if one is.
type refusal struct {
	Field  string `json:"field,omitempty"`
	Detail string `json:"detail"`
	status int
}

func (r *refusal) Error() string { return r.Detail }

func refuse(field, format string, args ...any) *refusal {
	return &refusal{Field: field, Detail: fmt.Sprintf(format, args...), status: http.StatusBadRequest}
}
