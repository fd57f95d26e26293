package demo

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

// policyText allows only resources of the same origin: no inline scripts, no inline
// styles.
const policyText = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guarded returns the routes of the handler behind [Guard].
func (h *Handler) guarded() (http.Handler, error) {
	mux, err := h.routing()
	if err != nil {
		return nil, err
	}
	return Guard(mux, h.opts.Hosts...), nil
}

// Guard protects next against pages of other sites in a browser; see package
// localaccess. It responds 403 to a request from a page of another origin, and 421 to a
// Host that is not localhost, a literal address or one of hosts, as protection against
// DNS rebinding. It sets header fields that harden the response in browsers. Clients
// other than browsers, such as curl, are not affected.
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

// refusal is why an action was rejected. field names the invalid control, if there is
// one.
type refusal struct {
	Field  string `json:"field,omitempty"`
	Detail string `json:"detail"`
	status int
}

func (r *refusal) Error() string { return r.Detail }

func refuse(field, format string, args ...any) *refusal {
	return &refusal{Field: field, Detail: fmt.Sprintf(format, args...), status: http.StatusBadRequest}
}
