package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/root"
)

// Check is one charge: a key, and a named policy, or a limit as text or as a value.
type Check struct {
	Policy    string       // the policy's name; empty means that Inline, or Limit and Algorithm, are the limit
	Limit     string       // the limit's text, for [headgate.ParseLimit]
	Algorithm string       // the algorithm's name; empty means token_bucket
	Inline    *InlineLimit // a limit as a value, in place of Limit and Algorithm; not retained
	Rule      string       // the configured rule that Inline is from, for logs; may be empty
	Key       string       // may be empty
	Cost      int64        // units, at least 0
}

// Answer is the result of [Engine.Decide]. Its zero value is ready to use. An answer that
// is used again reuses its memory, so an API should pool its answers.
type Answer struct {
	// Decision is the combined decision for the request, as [root.Combine] makes it.
	// Policies in shadow mode are not included, unless there are no others: it then
	// reports what they have left, and is always allowed.
	headgate.Decision
	// Policy is the policy that Limit, Remaining and ResetAfter are of; empty for a check
	// that brought its own limit.
	Policy string
	// Rules are all limits that Decision is combined from, in the order of the request,
	// and Decisions the decision of each.
	Rules     []*Rule
	Decisions []headgate.Decision
	// Tightest is the index of the limit that Limit, Remaining and ResetAfter are of.
	Tightest int
	// Unenforced is true if no limit of the request could have denied it: all of them are
	// in shadow mode, or enforcement is off. An API then sends clients nothing that would
	// make them slow down.
	Unenforced bool
	// Shadows are the results of checks in shadow mode, in the order of the request.
	Shadows []ShadowResult
	// Generation is the generation of the configuration that decided.
	Generation uint64

	enforced, shadowed charges
	mayWait            bool   // the request can wait in a queue
	event              Event  // here, so that notifying the observer allocates nothing
	random             uint64 // the state of the generator that samples requests for Begin
	recent             recentRule
}

// ShadowResult is the result of one check in shadow mode.
type ShadowResult struct {
	Check    int               // its index in the request, from 0
	Policy   string            // its policy; empty for a check that brought its own limit
	Decision headgate.Decision // zero if Err is set
	DeniedBy *Rule             // the first limit that denied; nil if none denied
	Err      error             // why it was not decided
	first    int               // the index of its first limit among the shadowed charges
	end      int               // the index after its last limit
}

// charges are the operations of one call of the store. Rules, ops and decisions
// correspond by index.
type charges struct {
	admission.Batch
	rules []*Rule
}

func (c *charges) reset() {
	c.Reset()
	c.rules = c.rules[:0]
}

func (c *charges) add(r *Rule, check *Check) {
	c.rules = append(c.rules, r)
	c.Add(r.bound, r.queues, check.Key, check.Cost)
}

// Decide executes verb for all checks at the store's clock; see [ActiveConfig.DecideAt].
func (e *Engine) Decide(ctx context.Context, verb headgate.Verb, checks []Check, a *Answer) error {
	return e.active.Load().DecideAt(ctx, headgate.StoreClock, verb, checks, a)
}

// Decide executes verb for all checks at the store's clock; see [ActiveConfig.DecideAt].
func (s *ActiveConfig) Decide(ctx context.Context, verb headgate.Verb, checks []Check, a *Answer) error {
	return s.DecideAt(ctx, headgate.StoreClock, verb, checks, a)
}

// DecideAt calls [ActiveConfig.DecideAt] of the active configuration.
func (e *Engine) DecideAt(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	return e.active.Load().DecideAt(ctx, now, verb, checks, a)
}

// DecideAt executes verb for all checks at time now and stores the result in a.
//
// A take is for all checks or for none. It is one operation of the store, plus one for
// each check in shadow mode. A refund or a reset is executed check by check, so that some
// of them may be done when an error is returned; the answer is a peek with cost 0 after
// the last. One check under one limit is one operation and allocates nothing.
//
// An invalid request is a [*CheckError], which names the check. [ErrorKindOf] classifies
// every error. No error contains a key. The checks are not retained.
func (s *ActiveConfig) DecideAt(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	a.Decision, a.Policy, a.Tightest, a.Unenforced, a.Generation = headgate.Decision{}, "", 0, false, s.generation
	a.Rules, a.Decisions, a.Shadows = nil, nil, a.Shadows[:0]
	defer a.clearKeys()
	if s.observer == nil {
		return s.decide(ctx, now, verb, checks, a)
	}
	s.begin(a)
	err := s.decide(ctx, now, verb, checks, a)
	s.notify(verb, checks, a, err)
	return err
}

// decide is DecideAt for an answer that was cleared.
func (s *ActiveConfig) decide(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	if err := s.resolve(checks, a); err != nil {
		return err
	}
	if s.enforcement == Off && verb != headgate.Reset {
		a.allowUnused()
		return nil
	}
	if len(a.enforced.Ops) > 0 {
		if err := s.chargeEnforced(ctx, now, verb, a); err != nil {
			return err
		}
		a.combine(&a.enforced)
		a.Unenforced = s.enforcement == Off // only a reset gets here with Off
	}
	if len(a.Shadows) > 0 {
		s.chargeShadowed(ctx, now, verb, checks, a)
	}
	return nil
}

// chargeEnforced executes verb for the enforced charges.
func (s *ActiveConfig) chargeEnforced(ctx context.Context, now headgate.Instant, verb headgate.Verb, a *Answer) error {
	if !a.mayWait {
		return s.apply(ctx, now, verb, &a.enforced, 0, len(a.enforced.Ops))
	}
	if len(a.Shadows) > 0 {
		a.shadowed.MarkTaken(now)
	}
	return a.enforced.Take(ctx, s.store, now)
}

// clearKeys removes the keys from a, unless its request waits in a queue. The rules and
// decisions stay for the caller.
func (a *Answer) clearKeys() {
	if a.mayWait && a.Delay > 0 {
		return
	}
	clear(a.enforced.Ops)
	clear(a.shadowed.Ops)
}

// resolve finds the rules of every check.
func (s *ActiveConfig) resolve(checks []Check, a *Answer) error {
	a.enforced.reset()
	a.shadowed.reset()
	if n := len(checks); n < 1 || n > s.maxChecks {
		return &CheckError{Index: -1, Field: "checks", Err: fmt.Errorf("%w: the request has %d checks; must be 1 to %d",
			ErrInvalidRequest, n, s.maxChecks)}
	}
	for i := range checks {
		if field, err := s.resolveOne(i, &checks[i], a); err != nil {
			return &CheckError{Index: i, Field: field, Err: err}
		}
	}
	return nil
}

// resolveOne adds the rules of one check to a, or returns an error and the field that it
// is about.
func (s *ActiveConfig) resolveOne(i int, c *Check, a *Answer) (field string, err error) {
	if len(c.Key) > s.maxKeyBytes {
		return "key", fmt.Errorf("%w: the key has %d bytes; must be at most %d", ErrInvalidRequest, len(c.Key), s.maxKeyBytes)
	}
	if c.Cost < 0 {
		return "cost", fmt.Errorf("%w: cost is %d; must be 0 or more (0 peeks)", headgate.ErrInvalidCost, c.Cost)
	}
	if c.Policy != "" {
		p, ok := s.policies[c.Policy]
		if !ok {
			return "policy", s.unknownPolicy(c.Policy)
		}
		to := s.chargesFor(i, p.name, p.enforces(c.Key), a)
		for _, r := range p.rulesFor(c.Key) {
			to.add(r, c)
		}
		return "", nil
	}
	to := s.chargesFor(i, "", true, a)
	r, err := s.ruleOf(c, to, a)
	if err != nil {
		return inlineField(err), err
	}
	to.add(r, c)
	return "", nil
}

// chargesFor returns the charges that a check is added to: the enforced or the shadowed
// ones.
func (s *ActiveConfig) chargesFor(i int, policy string, enforced bool, a *Answer) *charges {
	if s.enforcement == Off || enforced && s.enforcement != Shadow {
		return &a.enforced
	}
	a.Shadows = append(a.Shadows, ShadowResult{Check: i, Policy: policy})
	return &a.shadowed
}

// ruleOf returns the rule of a check that brought its own limit. others are the charges
// of the checks before it in the request.
func (s *ActiveConfig) ruleOf(c *Check, others *charges, a *Answer) (*Rule, error) {
	if c.Inline != nil {
		return a.ruleOfValue(s, c.Inline)
	}
	first, err := s.ruleOfText(inlineKey{c.Limit, c.Algorithm, 0})
	if err != nil {
		return nil, err
	}
	if n := others.ordinalOf(first, c.Key); n > 0 {
		return s.ruleOfText(inlineKey{c.Limit, c.Algorithm, n})
	}
	return first, nil
}

// apply executes verb for the charges with indexes from up to to, to excluded.
func (s *ActiveConfig) apply(ctx context.Context, now headgate.Instant, verb headgate.Verb, c *charges, from, to int) (err error) {
	ops, decisions := c.Ops[from:to], c.Decisions[from:to]
	if len(ops) == 1 {
		op := &ops[0]
		decisions[0], err = op.Bound.Apply(ctx, now, op.Key, verb, op.Cost)
		return err
	}
	if verb == headgate.Take || verb == headgate.Peek {
		return s.store.ApplyAll(ctx, now, ops, verb == headgate.Peek, decisions)
	}
	for i := range ops {
		op := &ops[i]
		if _, err := op.Bound.Apply(ctx, now, op.Key, verb, op.Cost); err != nil {
			return err
		}
		op.Cost = 0
	}
	return s.store.ApplyAll(ctx, now, ops, true, decisions)
}

// combine sets the combined decision of all charges.
func (a *Answer) combine(c *charges) {
	a.Rules, a.Decisions = c.rules, c.Decisions
	a.Tightest = root.Tightest(a.Decisions)
	a.Policy = a.Rules[a.Tightest].Policy
	if len(a.Decisions) == 1 {
		a.Decision = a.Decisions[0]
		return
	}
	a.Decision = root.Combine(a.Decisions)
}

// chargeShadowed executes verb for each check in shadow mode, one by one: an error of one
// affects neither the others nor the request. If the enforced checks denied the request,
// a take becomes a peek.
func (s *ActiveConfig) chargeShadowed(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) {
	hasEnforced := len(a.Rules) > 0
	if hasEnforced && !a.Allowed && verb == headgate.Take {
		verb = headgate.Peek
	}
	from := 0
	for i := range a.Shadows {
		w := &a.Shadows[i]
		to := from + s.ruleCount(&checks[w.Check])
		w.first, w.end = from, to
		if w.Err = s.apply(ctx, now, verb, &a.shadowed, from, to); w.Err != nil {
			for j := from; j < to; j++ {
				a.shadowed.Decisions[j] = unusedDecision(a.shadowed.rules[j])
				a.shadowed.Decisions[j].Degraded = reasonOf(w.Err)
			}
		} else {
			w.Decision = combineDecisions(a.shadowed.Decisions[from:to])
			w.DeniedBy = a.shadowed.firstDenial(from, to)
		}
		from = to
	}
	if !hasEnforced {
		for i := range a.shadowed.Decisions {
			forceAllow(&a.shadowed.Decisions[i])
		}
		a.combine(&a.shadowed)
		a.Unenforced = true
	}
}

// firstDenial returns the first rule that denied, of indexes from up to to, to excluded;
// nil if none denied.
func (c *charges) firstDenial(from, to int) *Rule {
	for i := from; i < to; i++ {
		if !c.Decisions[i].Allowed {
			return c.rules[i]
		}
	}
	return nil
}

// ruleCount returns the number of rules of a check.
func (s *ActiveConfig) ruleCount(c *Check) int {
	if c.Policy == "" {
		return 1
	}
	return len(s.policies[c.Policy].rulesFor(c.Key))
}

func combineDecisions(decisions []headgate.Decision) headgate.Decision {
	if len(decisions) == 1 {
		return decisions[0]
	}
	return root.Combine(decisions)
}

// forceAllow makes a decision allow the request immediately. Limit, Remaining and
// ResetAfter stay.
func forceAllow(d *headgate.Decision) {
	d.Allowed, d.Never, d.RetryAfter, d.Delay, d.DeniedBy = true, false, 0, 0, nil
}

// unusedDecision returns the decision about a key that was never used.
func unusedDecision(r *Rule) headgate.Decision {
	return headgate.Decision{Allowed: true, Limit: r.Capacity(), Remaining: r.Capacity()}
}

// allowUnused sets the answer while enforcement is off: every key is reported as unused.
func (a *Answer) allowUnused() {
	for i, r := range a.enforced.rules {
		a.enforced.Decisions[i] = unusedDecision(r)
	}
	a.combine(&a.enforced)
	a.Unenforced = true
}

// reasonOf returns the reason of a store error, ReasonNone for any other error.
func reasonOf(err error) headgate.StoreErrorReason {
	if cause := (*headgate.StoreError)(nil); errors.As(err, &cause) {
		return cause.Reason
	}
	return headgate.ReasonNone
}
