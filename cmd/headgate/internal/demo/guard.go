package demo

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
	"github.com/headgate/headgate/cmd/headgate/internal/webpage"
)

// guarded returns the routes of the handler, protected by [Guard].
func (h *Handler) guarded() (http.Handler, error) {
	mux, err := h.routing()
	if err != nil {
		return nil, err
	}
	return Guard(mux, h.opts.Hosts...), nil
}

// Guard protects the handler next against requests that pages of other sites make in a
// browser; see package localaccess. It responds with status 403 to a request from a
// page of another origin. As protection against DNS rebinding, it responds with status
// 421 if the Host is not localhost, an IP address or one of hosts. It also adds header
// fields that restrict what a browser does with the response. Clients other than
// browsers, such as curl, are not affected.
func Guard(next http.Handler, hosts ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		webpage.Harden(w.Header())
		switch {
		case !localaccess.NamedHost(r.Host, hosts...):
			http.Error(w, "host name not allowed; --allow-host allows further names", http.StatusMisdirectedRequest)
		case localaccess.CrossSite(r):
			http.Error(w, "cross-origin request", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// refusal is the reason why an action was rejected. Field is the name of the invalid
// control; it is empty if there is none.
type refusal struct {
	Field  string `json:"field,omitempty"`
	Detail string `json:"detail"`
	status int
}

func (r *refusal) Error() string { return r.Detail }

func refuse(field, format string, args ...any) *refusal {
	return &refusal{Field: field, Detail: fmt.Sprintf(format, args...), status: http.StatusBadRequest}
}
