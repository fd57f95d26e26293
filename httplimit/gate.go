package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
)

// gate is the middleware, shared by all handlers that it wraps.
type gate struct {
	core      admission.Core
	opts      Options // with Denied and Undecided set
	resolver  *clientaddr.Resolver
	writer    *httpfields.Writer
	needsTime bool
	charges   []charge
	sets      *admission.FieldSets
	only      *charge // the only one, if all of it fits the short way
	room      int     // bytes that the fields of most answers take
}

// serve limits one request.
func (g *gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if g.opts.Skip != nil && g.opts.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	if g.only != nil {
		g.serveShort(w, r, next)
		return
	}
	v := newRequestState(g, r)
	switch {
	case !g.admit(w, r, v):
		v.release()
	case v.settles:
		v.serveAndSettle(w, r, next)
		v.release()
	default:
		v.release()
		next.ServeHTTP(w, r)
	}
}

// admit charges a request and holds it for its turn. If it returns false the request was answered.
func (g *gate) admit(w http.ResponseWriter, r *http.Request, v *requestState) bool {
	if !v.collect() {
		return true
	}
	if err := v.decide(r.Context()); err != nil {
		g.undecided(w, r, err)
		return false
	}
	decided := time.Now()
	if v.all.Allowed {
		if err := v.Hold(r.Context(), v.all.Delay); err != nil {
			g.undecided(w, r, err)
			return false
		}
	}
	if v.writeFields(w.Header(), decided); !v.all.Allowed {
		g.opts.DeniedHandler(w, r, v.denial())
	}
	return v.all.Allowed
}

// undecided answers a request that was not decided: 499 if the client has disconnected, for
// logs, else the response of Options.ErrorHandler.
func (g *gate) undecided(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		w.WriteHeader(statusClientGone)
		return
	}
	g.opts.ErrorHandler(w, r, err)
}

func errCost(cost int64) error {
	return fmt.Errorf("httplimit: %w: cost is %d; must be 0 or more (0 peeks)", headgate.ErrInvalidCost, cost)
}
