package fallback

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// verdict is how a call of the inner store went. The zero value: it decided.
type verdict struct {
	trouble headgate.StoreErrorReason // why it could not decide, so that the rule says what holds; none if the call itself is at fault
	err     error
}

// call is one call of the inner store. It is entered, made, judged and ended.
type call struct {
	store  *Store
	caller context.Context
	allowance
	start  time.Time
	permit permit
	judged bool
}

// enter says whether the inner store may be asked. If so the call must be ended.
func (s *Store) enter(ctx context.Context) (call, verdict) {
	if s.closed.Load() {
		return call{}, verdict{err: headgate.ErrClosed}
	}
	if err := ctx.Err(); err != nil {
		return call{}, verdict{err: err}
	}
	if s.breaker.away() {
		return call{}, s.breaker.refusal()
	}
	if s.inFlight.Add(1) > s.most {
		s.inFlight.Add(-1)
		return call{}, verdict{headgate.ReasonOverloaded, s.errOverloaded()}
	}
	p, ok := s.breaker.admit()
	if !ok {
		s.inFlight.Add(-1)
		return call{}, s.breaker.refusal()
	}
	now := time.Now()
	return call{store: s, caller: ctx, allowance: s.budget.of(ctx, now), start: now, permit: p}, verdict{}
}

// end releases what the call holds, also when the inner store panics.
func (c *call) end() {
	c.store.inFlight.Add(-1)
	if c.cancel != nil {
		c.cancel()
	}
	if !c.judged {
		c.permit.end(errSaysNothing)
	}
}

// judge tells the breaker what came of the call, and the caller what it means.
func (c *call) judge(err error, asked question) verdict {
	c.judged = true
	if err == nil {
		c.decided()
		return verdict{}
	}
	v := c.classify(err)
	switch {
	case !c.evidence(v):
		c.permit.end(errSaysNothing)
		if late(v) && c.hurried() {
			c.store.breaker.check(asked)
		}
	case v.trouble == headgate.ReasonWrongType:
		c.decided()
	default:
		c.store.breaker.failed(c.permit, c.start, v, asked)
	}
	if over := c.caller.Err(); over != nil {
		return verdict{err: over}
	}
	return v
}

// decided is judge for an answer. One that came too fast for a network says nothing about the server, unless the store is just
// coming back: it was probed then.
func (c *call) decided() {
	if c.permit.done == nil {
		return
	}
	if !c.permit.trial && time.Since(c.start) < remembered {
		c.permit.end(errSaysNothing)
		return
	}
	c.store.breaker.noteDecided()
	c.permit.end(nil)
}

// remembered is the time within which no network answers.
const remembered = 10 * time.Microsecond

// evidence reports whether a trouble says something about the server. A caller who ended the call says nothing, and neither
// does one who gave the server less than half of the budget. Too many callers at once say nothing either, unless one has waited
// for all of the budget.
func (c *call) evidence(v verdict) bool {
	switch {
	case c.own && c.caller.Err() != nil:
		return false
	case late(v):
		return !c.hurried()
	}
	return v.trouble == headgate.ReasonUnreachable || v.trouble == headgate.ReasonRefused || v.trouble == headgate.ReasonWrongType
}

// hurried reports a caller who gave the server less than half of the budget.
func (c *call) hurried() bool { return c.own && c.given < c.store.budget.length/2 }

// late reports that there was no answer in the time that the server had.
func late(v verdict) bool {
	return v.trouble == headgate.ReasonTimedOut || v.trouble == headgate.ReasonOverloaded && errors.Is(v.err, context.DeadlineExceeded)
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
			Advice: "see whether the server is slow or gone; the budget is " + c.given.String(),
		}}
	}
	return verdict{err: err}
}

func (s *Store) errOverloaded() error {
	return &headgate.StoreError{
		Store: "store", Reason: headgate.ReasonOverloaded,
		Advice: "more callers wait for it than MaxInFlight allows; see whether the server is slow, or raise MaxInFlight",
	}
}
