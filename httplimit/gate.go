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
)

// gate is the middleware, whatever it stands before.
type gate struct {
	store     headgate.Store
	opts      Options // with Denied and Undecided set
	resolver  *clientaddr.Resolver
	writer    *httpfields.Writer
	needsTime bool
	charges   []charge
	sets      fieldSets
	only      *charge // the only one, if all of it fits the short way
	room      int     // bytes that the fields of most answers take
}

// serve is one request's way.
func (g *gate) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if g.opts.Skip != nil && g.opts.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	if g.only != nil {
		g.serveShort(w, r, next)
		return
	}
	v := newVisit(g, r)
	if !v.collect() {
		v.release()
		next.ServeHTTP(w, r)
		return
	}
	if err := v.decide(r.Context()); err != nil {
		v.release()
		g.undecided(w, r, err)
		return
	}
	v.tell(w.Header())
	switch {
	case !v.all.Allowed:
		d := v.denial()
		v.release()
		g.opts.Denied(w, r, d)
	case v.all.Delay > 0 || v.settles:
		g.serveSlowly(w, r, next, v)
	default:
		v.release()
		next.ServeHTTP(w, r)
	}
}

// serveSlowly is the way of a request that is held, or settled, so that something of it outlives the visit.
func (g *gate) serveSlowly(w http.ResponseWriter, r *http.Request, next http.Handler, v *visit) {
	b, delay := v.bill(), v.all.Delay
	v.release()
	if delay > 0 {
		if err := hold(r.Context(), delay); err != nil {
			b.giveBack(r.Context())
			g.undecided(w, r, err)
			return
		}
	}
	if !b.settles {
		next.ServeHTTP(w, r)
		return
	}
	b.serve(w, r, next)
}

// hold waits for a request's turn, if that comes before its deadline.
func hold(ctx context.Context, delay time.Duration) error {
	due := time.Now().Add(delay)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(due) {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if !time.Now().Before(due) {
			return nil // both at once: its turn cannot be given back, so it had better be used
		}
		return ctx.Err()
	}
}

// undecided answers when nothing was decided. To a client that has gone nothing can be said, and it is nobody's fault.
func (g *gate) undecided(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) {
		w.WriteHeader(statusClientGone)
		return
	}
	g.opts.Undecided(w, r, err)
}

// observe tells the observer of one charge's part.
func (g *gate) observe(c *charge, verb headgate.Verb, cost int64, decisions []headgate.Decision, err error) {
	if g.opts.Observer == nil {
		return
	}
	e := headgate.Event{Policy: c.policy, Verb: verb.String(), Cost: cost, Err: err}
	if err == nil {
		e.Decision = headgate.Combine(decisions)
	}
	g.opts.Observer.Observe(e)
}

func errCost(cost int64) error {
	return fmt.Errorf("httplimit: %w: Cost gave %d; accepted are whole numbers from 0 (0 only asks)", headgate.ErrInvalidCost, cost)
}
