package httpapi

import (
	"cmp"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

// Guard protects an API without authentication against web pages that have a browser
// send requests to it: pages of other origins, and pages whose name was rebound to an
// address of the listener. Other clients are not affected. It is created with
// [NewGuard] and may be used concurrently.
type Guard struct {
	hosts  localaccess.Hosts
	origin http.CrossOriginProtection
	log    *slog.Logger

	warnedHost, warnedOrigin atomic.Bool
}

// NewGuard returns a guard for a listener with the given rule about the Host of
// requests. It logs the first rejection of each kind to log; nil means no log.
func NewGuard(hosts localaccess.Hosts, log *slog.Logger) *Guard {
	return &Guard{hosts: hosts, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// Protect returns a handler that passes requests to next. It responds with status 421 to
// a request whose Host is not allowed, and with 403 to a request that a page of another
// origin had a browser send. GET, HEAD and OPTIONS requests of such pages reach next,
// because a browser does not show them the response.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !g.hosts.Allow(r.Host):
			if g.warnedHost.CompareAndSwap(false, true) {
				g.log.Warn("request for untrusted host rejected", "api", "http", "status", http.StatusMisdirectedRequest,
					"advice", "use an IP address or localhost, or add the host name to http.allowed_hosts; this warning is logged once")
			}
			writeProblem(w, http.StatusMisdirectedRequest, "the host name is not allowed; use an IP address or localhost, or add the name to "+
				"http.allowed_hosts (--http-allowed-hosts)", "")
		case g.origin.Check(r) != nil:
			if g.warnedOrigin.CompareAndSwap(false, true) {
				g.log.Warn("cross-origin request rejected", "api", "http", "status", http.StatusForbidden,
					"advice", "do not copy Origin and Sec-Fetch-Site of other requests; this warning is logged once")
			}
			writeProblem(w, http.StatusForbidden, "the request is from a web page of another origin, which cannot use this API", "")
		default:
			next.ServeHTTP(w, r)
		}
	})
}
