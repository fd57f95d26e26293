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

// middleware is the state that all wrapped handlers share.
type middleware struct {
	core      admission.Core
	opts      Options // options in which DeniedHandler and ErrorHandler are not nil
	resolver  *clientaddr.Resolver
	writer    *httpfields.Writer
	needsTime bool
	charges   []charge
	sets      *admission.FieldSets
	single    *charge           // the only charge if the fast path can serve the configuration, otherwise nil
	fieldRoom int               // bytes to reserve for the header fields of a response
	keeper    *admission.Keeper // extends the holds of requests with slots
}

// serve handles one request: it applies the limits and calls next if the request is
// allowed.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.opts.Skip != nil && m.opts.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	if m.single != nil {
		m.serveFast(w, r, next)
		return
	}
	s := newRequestState(m, r)
	switch {
	case !m.admit(w, r, s):
		s.release()
	case s.adjusts:
		s.serveAndAdjust(w, r, next)
		s.release()
	case s.IsHeld():
		defer s.release()
		defer s.CommitAsCharged(r.Context()) // also if the handler panics
		next.ServeHTTP(w, r)
	default:
		s.release()
		next.ServeHTTP(w, r)
	}
}

// admit charges a request, waits for its delay and reports whether it may proceed. If
// not, admit has written the response.
func (m *middleware) admit(w http.ResponseWriter, r *http.Request, s *requestState) bool {
	if !s.collect() {
		return true
	}
	if err := s.decide(r.Context()); err != nil {
		m.writeError(w, r, err)
		return false
	}
	decidedAt := time.Now()
	if s.combined.Allowed {
		if err := s.AwaitTurn(r.Context(), s.combined.Delay); err != nil {
			m.writeError(w, r, err)
			return false
		}
	}
	if s.writeFields(w.Header(), decidedAt); !s.combined.Allowed {
		m.opts.DeniedHandler(w, r, s.denial())
	}
	return s.combined.Allowed
}

// writeError writes the response to a request that was not decided. If the client has
// disconnected, this is the status 499, for logs; otherwise it is the response of
// Options.ErrorHandler.
func (m *middleware) writeError(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		w.WriteHeader(statusClientClosedRequest)
		return
	}
	m.opts.ErrorHandler(w, r, err)
}

func costError(cost int64) error {
	return fmt.Errorf("httplimit: %w: cost is %d; must be 0 or more (0 peeks)", headgate.ErrInvalidCost, cost)
}
