package engine

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

// Check is one charge on a key. Its limit is a named policy, a limit as text, or a
// limit as a value.
type Check struct {
	Policy    string       // name of the policy; empty means that Inline, or else Limit and Algorithm, define the limit
	Limit     string       // text of the limit, in the form that [headgate.ParseLimit] accepts
	Algorithm string       // name of the algorithm for Limit; empty means token_bucket
	Inline    *InlineLimit // limit as a value, used instead of Limit and Algorithm; not retained
	Rule      string       // name of the configured rule that Inline is from, for logs; may be empty
	// Reported is the limit in logs and metrics if Inline is one unit more than it; see
	// [Event.Denied]. It is not retained and may be nil.
	Reported *headgate.Limit
	// Shadow means that the API allows the request although this check is denied. It
	// changes only logs and metrics.
	Shadow bool
	Key    string // key to charge; may be empty
	Cost   int64  // cost in units; must be 0 or more
	// Composed is true if the API composed the checks of the request from a request in
	// its own format. MaxKeyBytes and MaxChecks then do not apply, because an error would
	// let the client bypass its limits: the API must bound the number of checks, and the
	// length of Key with package key. It must be the same for all checks of a request.
	Composed bool
}

// Decide executes verb for all checks at the store's clock; see [ActiveConfig.DecideAt].
func (e *Engine) Decide(ctx context.Context, verb headgate.Verb, checks []Check, a *Answer) error {
	return e.active.Load().DecideAt(ctx, headgate.StoreClock, verb, checks, a)
}

// Decide executes verb for all checks at the store's clock; see [ActiveConfig.DecideAt].
func (s *ActiveConfig) Decide(ctx context.Context, verb headgate.Verb, checks []Check, a *Answer) error {
	return s.DecideAt(ctx, headgate.StoreClock, verb, checks, a)
}

// DecideAt calls [ActiveConfig.DecideAt] on the active configuration.
func (e *Engine) DecideAt(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	return e.active.Load().DecideAt(ctx, now, verb, checks, a)
}

// DecideAt executes verb for all checks and stores the result in a. It uses the
// parameter now as the current time; [headgate.StoreClock] means the store's clock.
//
// A take is all or nothing: it spends units for all checks, or for none. It takes one
// store operation, plus one for each check in shadow mode. A refund or a reset is
// executed check by check, so if it returns an error, it may already be done for some
// checks. The answer to a refund or a reset is a peek with cost 0 after the last check.
// A request of one check with one limit takes one store operation and allocates
// nothing.
//
// The error for an invalid request is a [*CheckError], which identifies the check.
// [ErrorKindOf] classifies all errors. Errors never contain a key. The checks are not
// retained.
func (s *ActiveConfig) DecideAt(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	a.clear(s.generation)
	defer a.clearKeys()
	if s.observer == nil {
		return s.decide(ctx, now, verb, checks, a)
	}
	s.begin(a)
	err := s.decide(ctx, now, verb, checks, a)
	s.notify(ctx, Operation(verb), checks, a, err)
	return err
}

// Count is like [ActiveConfig.DecideAt] with the verb Take, but is not reported to the
// observer. It is for hits of a request that is already decided.
func (s *ActiveConfig) Count(ctx context.Context, now headgate.Instant, checks []Check, a *Answer) error {
	a.clear(s.generation)
	defer a.clearKeys()
	return s.decide(ctx, now, headgate.Take, checks, a)
}

// decide does the work of DecideAt, after DecideAt has cleared a.
func (s *ActiveConfig) decide(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	a.withBans = verb != headgate.Refund
	if err := s.resolve(checks, a); err != nil {
		return err
	}
	if err := a.checkHoldRequired(verb); err != nil {
		return err
	}
	if verb == headgate.Refund && !checks[0].Composed {
		if err := a.checkExactCosts(); err != nil {
			return err
		}
	}
	return s.decideResolved(ctx, now, verb, a)
}

// decideResolved executes verb for the charges of a.
func (s *ActiveConfig) decideResolved(ctx context.Context, now headgate.Instant, verb headgate.Verb, a *Answer) error {
	if s.enforcement == Off && verb != headgate.Reset {
		a.allowUnused()
		return nil
	}
	if len(a.enforced.Ops) > 0 {
		if err := s.chargeEnforced(ctx, now, verb, a); err != nil {
			return err
		}
		a.combine(&a.enforced)
		a.Unenforced = s.enforcement == Off // with enforcement off, this line is reached only by a reset
	}
	if len(a.Shadows) > 0 {
		s.chargeShadowed(ctx, now, verb, a)
	}
	return nil
}

// chargeEnforced executes verb for the checks that are not in shadow mode.
func (s *ActiveConfig) chargeEnforced(ctx context.Context, now headgate.Instant, verb headgate.Verb, a *Answer) error {
	if !a.mayWait {
		return s.apply(ctx, now, verb, &a.enforced, 0, len(a.enforced.Ops))
	}
	return a.enforced.Take(ctx, s.store, now)
}

// apply executes verb for the charges with the indexes from, …, to-1.
func (s *ActiveConfig) apply(ctx context.Context, now headgate.Instant, verb headgate.Verb, c *charges, from, to int) (err error) {
	ops, decisions := c.Ops[from:to], c.Decisions[from:to]
	if len(ops) == 1 {
		op := &ops[0]
		decisions[0], err = op.Bound.Apply(ctx, now, op.Key, verb, op.Cost)
		return err
	}
	if verb == headgate.Take || verb == headgate.Peek {
		return root.ApplyAll(ctx, s.store, now, ops, verb == headgate.Peek, decisions)
	}
	for i := range ops {
		op := &ops[i]
		if _, err := op.Bound.Apply(ctx, now, op.Key, verb, op.Cost); err != nil {
			return err
		}
		if r := c.rules[from+i]; verb == headgate.Reset && r.isBan() {
			if err := r.ban.reset(ctx, now, op.Key); err != nil {
				return err
			}
		}
		op.Cost = 0
	}
	return root.ApplyAll(ctx, s.store, now, ops, true, decisions)
}
