package demo

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
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

// Guard protects next from pages of other sites in a browser, by the rule of package localaccess. It answers 403 to a request
// that a page of another origin sent, and 421 to a Host that is neither localhost, a literal address nor one of hosts, against
// DNS rebinding. It sets the header fields that harden an answer in a browser. Clients that are not browsers, such as curl,
// pass.
func Guard(next http.Handler, hosts ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		switch {
		case !localaccess.NamedHost(r.Host, hosts...):
			http.Error(w, "this server is not reached under that name; --allow-host adds one", http.StatusMisdirectedRequest)
		case localaccess.CrossSite(r):
			http.Error(w, "cross-origin request", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
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
