package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/root"
)

// ClientHold is a hold of a client: a hold to be opened, or a hold that [ParseHold] has
// read from a token.
type ClientHold struct {
	ID      headgate.HoldID
	Checks  []Check          // checks with their amounts
	Expires headgate.Instant // deadline at the last open or extension with this value
	// Degraded is the reason why the store did not open the hold; see
	// [headgate.Decision].
	Degraded headgate.StoreErrorReason
	// Err is set by [ActiveConfig.Extend]: the reason why the hold was not extended; nil
	// if it was.
	Err error
}

// NewHoldID returns the id of a hold for the text that a client sent, or a random one if
// the text is empty. The error is a [*CheckError] with the field id.
func NewHoldID(text string) (headgate.HoldID, error) {
	id, err := headgate.HoldIDOf(text)
	if err != nil {
		err = &CheckError{Index: -1, Field: "id", Err: err}
	}
	return id, err
}

// Hold takes the amounts of all checks of h, or of none, and opens a hold for them that
// expires after ttl. The decision in a is the result of the take. It sets h.Expires: if
// a.Replayed is set, to the deadline of the hold that was opened before. With enforcement
// off, it opens no hold. The checks are resolved as in [ActiveConfig.DecideAt], and
// errors are as described there.
func (s *ActiveConfig) Hold(ctx context.Context, now headgate.Instant, ttl time.Duration, h *ClientHold, a *Answer) error {
	return s.applyHold(ctx, &holdCall{verb: headgate.OpenHold, now: now, ttl: ttl}, h, a)
}

// Commit ends h with the actual cost of each check, in the order of the checks. The
// decision in a is the result of a peek with cost 0. It changes the amounts in h. It
// returns an error if a limit does not know the hold and has not counted the units above
// its amount.
func (s *ActiveConfig) Commit(ctx context.Context, now headgate.Instant, h *ClientHold, actual []int64, a *Answer) error {
	if len(actual) != len(h.Checks) {
		return &CheckError{Index: -1, Field: "actual", Err: fmt.Errorf("%w: the number of actual costs is %d; must be %d, one for each check of the hold",
			ErrInvalidRequest, len(actual), len(h.Checks))}
	}
	amounts := make([]int64, len(h.Checks))
	for i := range h.Checks {
		amounts[i], h.Checks[i].Cost = h.Checks[i].Cost, actual[i]
	}
	return s.applyHold(ctx, &holdCall{verb: headgate.CommitHold, now: now, amounts: amounts}, h, a)
}

// Cancel ends h as if nothing had been charged: it is Commit with 0.
func (s *ActiveConfig) Cancel(ctx context.Context, now headgate.Instant, h *ClientHold, a *Answer) error {
	return s.Commit(ctx, now, h, make([]int64, len(h.Checks)), a)
}

// Debit spends the cost of every check, whether or not it is available. The decision in a
// is the result of a peek with cost 0.
func (s *ActiveConfig) Debit(ctx context.Context, now headgate.Instant, checks []Check, a *Answer) error {
	return s.applyHold(ctx, &holdCall{verb: headgate.Debit, now: now}, &ClientHold{Checks: checks}, a)
}

// TakeUpTo spends the same number of units for each check: the least of their costs or,
// if fewer remain, as many as remain for every check. It sets a.Granted to this number.
// The decision in a is the result of a peek with cost 0.
func (s *ActiveConfig) TakeUpTo(ctx context.Context, now headgate.Instant, checks []Check, a *Answer) error {
	return s.applyHold(ctx, &holdCall{verb: headgate.TakeUpTo, now: now}, &ClientHold{Checks: checks}, a)
}

// holdCall is one operation on holds.
type holdCall struct {
	verb  headgate.HoldVerb
	now   headgate.Instant
	ttl   time.Duration
	holds []ClientHold

	amounts []int64 // amount of each check of a hold that is committed
}

// applyHold executes a call on one hold.
func (s *ActiveConfig) applyHold(ctx context.Context, call *holdCall, h *ClientHold, a *Answer) error {
	call.holds = []ClientHold{*h}
	err := s.applyHolds(ctx, call, a)
	h.Expires, h.Degraded = call.holds[0].Expires, call.holds[0].Degraded
	return err
}

// applyHolds executes a call, and reports it to the observer.
func (s *ActiveConfig) applyHolds(ctx context.Context, call *holdCall, a *Answer) error {
	a.clear(s.generation)
	defer a.clearKeys()
	if s.observer == nil {
		return s.changeHolds(ctx, call, a)
	}
	s.begin(a)
	err := s.changeHolds(ctx, call, a)
	s.notify(ctx, Hold+Operation(call.verb), call.holds[0].Checks, a, err)
	return err
}

// changeHolds does the work of applyHolds.
func (s *ActiveConfig) changeHolds(ctx context.Context, call *holdCall, a *Answer) error {
	if err := s.resolveHolds(call, a); err != nil {
		return err
	}
	if s.enforcement == Off {
		a.allowUnused()
		call.allowAll(a)
		return nil
	}
	if call.verb == headgate.OpenHold || call.verb == headgate.TakeUpTo {
		if denied, err := s.checkBans(ctx, call.now, a); denied || err != nil {
			if err == nil && len(a.Shadows) > 0 {
				s.holdShadowed(ctx, call, a)
			}
			return err
		}
	}
	if len(a.enforced.rules) > 0 {
		at, err := s.applyHoldOps(ctx, call, &a.enforced, 0, len(a.enforced.rules))
		if err != nil && !errors.Is(err, headgate.ErrUnknownHold) {
			return err
		}
		if err := call.addResults(a, at); err != nil {
			return err
		}
		a.combine(&a.enforced)
		if call.verb == headgate.OpenHold {
			call.holds[0].Degraded = a.Degraded
		}
	}
	if len(a.Shadows) > 0 {
		s.holdShadowed(ctx, call, a)
	}
	return nil
}

// resolveHolds adds the rules of the checks of all holds to a.
func (s *ActiveConfig) resolveHolds(call *holdCall, a *Answer) error {
	a.enforced.reset()
	a.shadowed.reset()
	a.withBans = false
	if err := s.checkExtended(call); err != nil {
		return err
	}
	if call.verb == headgate.OpenHold || call.verb == headgate.ExtendHold {
		if err := root.CheckTTL(call.ttl); err != nil {
			return &CheckError{Index: -1, Field: "ttl", Err: err}
		}
	}
	i, limits := 0, s.sent
	if call.verb == headgate.CommitHold || call.verb == headgate.ExtendHold {
		limits = s.held // the checks may be from a route
	}
	for h := range call.holds {
		a.enforced.first, a.shadowed.first = len(a.enforced.rules), len(a.shadowed.rules)
		checks := call.holds[h].Checks
		if err := s.resolveFrom(i, checks, limits, a); err != nil {
			return err
		}
		a.enforced.assignHold(h)
		a.shadowed.assignHold(h)
		i += len(checks)
	}
	if err := a.enforced.validateHolds(call.verb); err != nil {
		return err
	}
	return a.shadowed.validateHolds(call.verb)
}

// assignHold assigns the charges without a hold to the hold with index h.
func (c *charges) assignHold(h int) {
	for len(c.holds) < len(c.rules) {
		c.holds = append(c.holds, h)
	}
}

// validateHolds returns an error for a cost that a store cannot add up exactly, and for
// an algorithm without holds.
func (c *charges) validateHolds(verb headgate.HoldVerb) error {
	for i, r := range c.rules {
		if err := c.checkCost(verb, i); err != nil {
			return err
		}
		if r.onlyHolds && verb > headgate.ExtendHold {
			return &CheckError{Index: c.checks[i], Field: limitFieldOf(r), Err: errCheckRequiresHold(r.Name)}
		}
		if verb == headgate.OpenHold && !r.Algorithm.CanHold() || verb <= headgate.ExtendHold && r.queues {
			return &CheckError{Index: c.checks[i], Field: fieldOf(r), Err: errNoHolds(r.Algorithm)}
		}
	}
	return nil
}

// checkCost returns a [*CheckError] if the cost of charge i is above the maximum for the
// verb: a store cannot add it up exactly.
func (c *charges) checkCost(verb headgate.HoldVerb, i int) error {
	if err := root.CheckHoldCost(verb, c.rules[i].Algorithm, &c.rules[i].Limit, c.Ops[i].Cost); err != nil {
		return &CheckError{Index: c.checks[i], Field: "cost", Err: err}
	}
	return nil
}

// checkExactCosts returns the error of checkCost for the first such cost. A check or
// peek with such a cost has a decision: it is denied, and Never is set.
func (a *Answer) checkExactCosts() error {
	for _, c := range [...]*charges{&a.enforced, &a.shadowed} {
		for i := range c.rules {
			if err := c.checkCost(headgate.OpenHold, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// errNoHolds returns the error for an algorithm without holds. It matches
// [headgate.ErrUnsupported].
func errNoHolds(a headgate.Algorithm) error {
	return fmt.Errorf("%w: %s has no holds; must be %s", headgate.ErrUnsupported, a, algo.NamesWhere(headgate.Algorithm.CanHold))
}

// fieldOf returns the name of the field of a check that selects the algorithm of a rule.
func fieldOf(r *Rule) string {
	if r.Policy != "" {
		return "policy"
	}
	return "algorithm"
}

// applyHoldOps executes the verb of a call for the charges with the indexes from, …,
// to-1. It returns the instant of the operation.
func (s *ActiveConfig) applyHoldOps(ctx context.Context, call *holdCall, c *charges, from, to int) (headgate.Instant, error) {
	c.ops, c.results = c.ops[:0], c.results[:0]
	for i := range c.rules {
		c.ops = append(c.ops, headgate.HoldOp{Op: c.Ops[i], ID: call.holds[c.holds[i]].ID})
		c.results = append(c.results, headgate.HoldResult{})
	}
	ops, results := c.ops[from:to], c.results[from:to]
	at, err := s.applyHoldVerb(ctx, call, c.holds[from:to], ops, results)
	for i := range results {
		c.Decisions[from+i] = results[i].Decision
	}
	return at, err
}

func (s *ActiveConfig) applyHoldVerb(
	ctx context.Context, call *holdCall, holds []int, ops []headgate.HoldOp, results []headgate.HoldResult,
) (at headgate.Instant, err error) {
	if bound, ok := ops[0].Bound.(headgate.HoldBound); ok && len(ops) == 1 {
		results[0], at, err = bound.ApplyHold(ctx, call.now, call.verb, call.ttl, ops[0])
		results[0].Err = err
		return at, err
	}
	if call.verb == headgate.ExtendHold {
		at, _ = root.ExtendHolds(ctx, s.store, call.now, call.ttl, ops, sizesOf(holds), results)
		return at, nil // results has the errors
	}
	at, err = root.ApplyHolds(ctx, s.store, call.now, call.verb, call.ttl, ops, results)
	if err == nil {
		err = commonError(results)
	}
	return at, err
}

// holdShadowed executes a call separately for each check in shadow mode, like
// [ActiveConfig.chargeShadowed].
func (s *ActiveConfig) holdShadowed(ctx context.Context, call *holdCall, a *Answer) {
	if len(a.Rules) > 0 && !a.Allowed {
		s.chargeShadowed(ctx, call.now, headgate.Peek, a)
		return
	}
	apply := func(from, to int) error {
		_, err := s.applyHoldOps(ctx, call, &a.shadowed, from, to)
		return err
	}
	if call.verb == headgate.ExtendHold && len(a.Shadows) > 1 { // an error for one hold does not affect the others
		_, _ = s.applyHoldOps(ctx, call, &a.shadowed, 0, len(a.shadowed.rules))
		apply = func(from, to int) error { return commonError(a.shadowed.results[from:to]) }
	}
	a.eachShadow(apply)
	if len(a.Rules) == 0 {
		a.allowShadowed()
		call.allowAll(a)
	}
}
