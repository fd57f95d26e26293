package fallback

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// verdict is the outcome of a call to the inner store. The zero value means that the
// store decided.
type verdict struct {
	// reason is the reason why the store could not decide; the failure mode then
	// applies. It is ReasonNone if there is an error for which the failure mode does
	// not apply, such as an invalid argument.
	reason headgate.StoreErrorReason
	err    error
}

// call is one call to the inner store. Its methods must be used in the order enter,
// judge, end.
type call struct {
	store  *Store
	caller context.Context
	allowance
	start   time.Time
	asked   storeCall
	permits permits
	judged  bool
}

// enter returns a call if the inner store may be called with the request asked; the
// caller must then use its method end. Otherwise the returned verdict has an error.
func (s *Store) enter(ctx context.Context, asked storeCall) (call, verdict) {
	if s.closed.Load() {
		return call{}, verdict{err: headgate.ErrClosed}
	}
	if err := ctx.Err(); err != nil {
		return call{}, verdict{err: err}
	}
	p, refused := s.breakers.admit(asked)
	if refused != nil {
		return call{}, refused.refusal()
	}
	if s.inFlight.Add(1) > s.maxInFlight {
		s.inFlight.Add(-1)
		p.end(errNoEvidence)
		return call{}, verdict{headgate.ReasonOverloaded, s.errOverloaded()}
	}
	now := time.Now()
	return call{store: s, caller: ctx, allowance: s.budget.of(ctx, now), start: now, asked: asked, permits: p}, verdict{}
}

// end releases the resources of the call, even if the inner store panics.
func (c *call) end() {
	c.store.inFlight.Add(-1)
	if c.cancel != nil {
		c.cancel()
	}
	if !c.judged {
		c.permits.end(errNoEvidence)
	}
}

// judge reports the outcome of the call to the breakers and returns the verdict for the
// caller.
func (c *call) judge(err error) verdict {
	c.judged = true
	if err == nil {
		c.noteDecided()
		return verdict{}
	}
	v := c.classify(err)
	switch {
	case !c.evidence(v):
		c.permits.end(errNoEvidence)
		if timedOut(v) && c.shortDeadline() {
			c.store.breakers.check(c.asked)
		}
	case v.reason == headgate.ReasonWrongType:
		c.noteDecided()
	default:
		c.store.breakers.failed(&c.permits, c.start, v, c.asked)
	}
	if over := c.caller.Err(); over != nil {
		return verdict{err: over}
	}
	return v
}

// noteDecided records that the store decided. A reply that is too fast for a network
// does not show that the server works, and is not counted, except in the half-open
// state, which follows a successful probe.
func (c *call) noteDecided() {
	c.permits.each(func(p permit) {
		switch {
		case p.done == nil:
		case !p.trial && time.Since(c.start) < cacheLatency:
			p.end(errNoEvidence)
		default:
			p.breaker.noteDecided()
			p.end(nil)
		}
	})
}

// cacheLatency is a time shorter than that of any reply over a network: faster replies
// come from a cache in this process.
const cacheLatency = 10 * time.Microsecond

// evidence reports whether a failure shows something about the server's health. A
// canceled call does not, nor does a timeout if the caller's deadline left the server
// less than half of the budget. An overload does only if the caller waited until its
// deadline.
func (c *call) evidence(v verdict) bool {
	switch {
	case c.own && c.caller.Err() != nil:
		return false
	case timedOut(v):
		return !c.shortDeadline()
	}
	return v.reason == headgate.ReasonUnreachable || v.reason == headgate.ReasonRefused || v.reason == headgate.ReasonWrongType
}

// shortDeadline reports whether the caller's deadline left the server less than half of
// the budget.
func (c *call) shortDeadline() bool { return c.own && c.given < c.store.budget.length/2 }

// timedOut reports whether the server did not reply in time.
func timedOut(v verdict) bool {
	return v.reason == headgate.ReasonTimedOut || v.reason == headgate.ReasonOverloaded && errors.Is(v.err, context.DeadlineExceeded)
}

func (c *call) classify(err error) verdict {
	var known *headgate.StoreError
	switch {
	case errors.As(err, &known):
		return verdict{known.Reason, err}
	case errors.Is(err, headgate.ErrStoreUnavailable):
		return verdict{headgate.ReasonUnreachable, &headgate.StoreError{Store: "store", Reason: headgate.ReasonUnreachable, Err: err}}
	case errors.Is(err, context.DeadlineExceeded):
		return verdict{headgate.ReasonTimedOut, &headgate.StoreError{
			Store: "store", Reason: headgate.ReasonTimedOut, Err: err,
			Advice: "check whether the server is slow or unreachable; the budget is " + c.given.String(),
		}}
	}
	return verdict{err: err}
}

func (s *Store) errOverloaded() error {
	return &headgate.StoreError{
		Store: "store", Reason: headgate.ReasonOverloaded,
		Advice: "more callers wait than MaxInFlight allows; check whether the server is slow, or raise MaxInFlight",
	}
}
