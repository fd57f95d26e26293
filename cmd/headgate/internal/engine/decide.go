package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
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

// Answer is the result of [Engine.Decide]. The zero value is ready to use. An answer
// that is passed to Decide again reuses its memory, so an API should pool its answers.
type Answer struct {
	// Decision is the combined decision for the request, computed by [root.Combine]. It
	// does not include policies in shadow mode, unless the request has no others. In
	// that case it always allows the request, and reports the remaining units of the
	// policies in shadow mode.
	headgate.Decision
	// Policy is the name of the policy whose Limit, Remaining and ResetAfter are in
	// Decision. It is empty if they are from a check without a policy.
	Policy string
	// Rules are all limits from which Decision was combined, in the order of the
	// request. Decisions holds the decision for each of Rules, at the same index.
	Rules     []*Rule
	Decisions []headgate.Decision
	// Tightest is the index in Rules of the limit whose Limit, Remaining and ResetAfter
	// are in Decision.
	Tightest int
	// Unenforced is true if no limit of the request could have denied it, because all
	// of them are in shadow mode or enforcement is off. An API must then send clients
	// nothing that would make them slow down.
	Unenforced bool
	// Shadows are the results of checks in shadow mode, in the order of the request.
	Shadows []ShadowResult
	// Generation is the generation of the configuration that made the decision.
	Generation uint64
	// Replayed is true if the operation on a hold had been executed before, so that it
	// changed nothing.
	Replayed bool
	// Granted is the number of units of each check that [ActiveConfig.TakeUpTo] spent.
	Granted int64
	// Uncounted is the number of units above the amount of a hold that a commit has not
	// counted; see [headgate.HoldResult].
	Uncounted int64

	enforced, shadowed charges
	withBans           bool   // whether resolve adds the bans of policies
	mayWait            bool   // whether the request can wait in a queue
	event              Event  // event for the observer; stored here so that it is not allocated for each request
	random             uint64 // state of the generator that selects the requests for which Observer.Begin is called
	recent             recentRule
}

// ShadowResult is the result for one check in shadow mode.
type ShadowResult struct {
	Check    int               // index of the check in the request, from 0
	Policy   string            // name of the check's policy; empty for a check without a policy
	Decision headgate.Decision // decision for the check; zero if Err is set
	DeniedBy *Rule             // first limit that would have denied the request; nil if none
	Err      error             // error that prevented the decision, or nil
	first    int               // index of the check's first limit in Answer.shadowed
	end      int               // index after the check's last limit in Answer.shadowed
}

// charges are the operations that one call of the store executes. The elements of
// rules, Ops and Decisions correspond by index.
type charges struct {
	admission.Batch
	rules  []*Rule
	checks []int // index of the check of each charge
	bans   int   // number of bans in rules; see foldBans

	// For operations on holds only:
	holds   []int // index of the hold of each charge
	first   int   // index of the first charge of the hold that is being resolved
	ops     []headgate.HoldOp
	results []headgate.HoldResult
}

func (c *charges) reset() {
	c.Reset()
	c.rules, c.checks, c.bans = c.rules[:0], c.checks[:0], 0
	c.holds, c.first = c.holds[:0], 0
}

// add adds a charge of the check with index i.
func (c *charges) add(i int, r *Rule, check *Check) {
	c.rules, c.checks = append(c.rules, r), append(c.checks, i)
	c.Add(r.bound, r.queues, check.Key, check.Cost)
}

// addBan adds a charge of one unit on the ban of the check with index i, so that it is
// denied while the key is banned. A cost of 0 is always allowed.
func (c *charges) addBan(i int, r *Rule, check *Check) {
	c.rules, c.checks, c.bans = append(c.rules, r), append(c.checks, i), c.bans+1
	c.Add(r.bound, r.queues, check.Key, min(1, check.Cost))
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

// clear removes the result of the previous request from a.
func (a *Answer) clear(generation uint64) {
	a.Decision, a.Policy, a.Tightest, a.Unenforced, a.Generation = headgate.Decision{}, "", 0, false, generation
	a.Rules, a.Decisions, a.Shadows = nil, nil, a.Shadows[:0]
	a.Replayed, a.Granted, a.Uncounted = false, 0, 0
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

// clearKeys removes the keys from a, unless the request waits in a queue. It keeps the
// rules and decisions for the caller.
func (a *Answer) clearKeys() {
	if a.mayWait && a.Delay > 0 {
		return
	}
	a.enforced.clearKeys()
	a.shadowed.clearKeys()
}

func (c *charges) clearKeys() {
	clear(c.Ops)
	clear(c.ops)
}

// resolve adds the rules of all checks to a.
func (s *ActiveConfig) resolve(checks []Check, a *Answer) error {
	a.enforced.reset()
	a.shadowed.reset()
	return s.resolveFrom(0, checks, s.sent, a)
}

// resolveFrom adds the rules of all checks to a. The first of them has index i.
func (s *ActiveConfig) resolveFrom(i int, checks []Check, most inputLimits, a *Answer) error {
	if n := len(checks); n < 1 || n > most.checks && !checks[0].Composed {
		return &CheckError{Index: -1, Field: "checks", Err: fmt.Errorf("%w: the request has %d checks; must be 1 to %d",
			ErrInvalidRequest, n, most.checks)}
	}
	for j := range checks {
		if field, err := s.resolveOne(i+j, &checks[j], most.keyBytes, a); err != nil {
			return &CheckError{Index: i + j, Field: field, Err: err}
		}
	}
	return nil
}

// resolveOne adds the rules of check c, which has index i, to a. If it returns an
// error, field is the name of the invalid field.
func (s *ActiveConfig) resolveOne(i int, c *Check, maxKeyBytes int, a *Answer) (field string, err error) {
	if len(c.Key) > maxKeyBytes && !c.Composed {
		return "key", fmt.Errorf("%w: the key has %d bytes; must be at most %d", ErrInvalidRequest, len(c.Key), maxKeyBytes)
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
			switch {
			case !r.isBan():
				to.add(i, r, c)
			case a.withBans:
				to.addBan(i, r, c)
			}
		}
		return "", nil
	}
	to := s.chargesFor(i, "", true, a)
	r, err := s.ruleOf(c, to, a)
	if err != nil {
		return inlineField(err), err
	}
	to.add(i, r, c)
	return "", nil
}

// chargesFor returns the charges to which the check with index i is to be added: either
// a.enforced or a.shadowed. If the check is in shadow mode, chargesFor also adds an
// element to a.Shadows.
func (s *ActiveConfig) chargesFor(i int, policy string, enforced bool, a *Answer) *charges {
	if s.enforcement == Off || enforced && s.enforcement != Shadow {
		return &a.enforced
	}
	a.Shadows = append(a.Shadows, ShadowResult{Check: i, Policy: policy})
	return &a.shadowed
}

// ruleOf returns the rule of a check without a policy. The parameter others holds the
// charges of the preceding checks in the request.
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

// combine sets the decision in a to the combination of all decisions of c.
func (a *Answer) combine(c *charges) {
	c.foldBans(0, len(c.rules))
	a.Rules, a.Decisions = c.rules, c.Decisions
	a.Tightest = root.Tightest(a.Decisions)
	a.Policy = a.Rules[a.Tightest].Policy
	if len(a.Decisions) == 1 {
		a.Decision = a.Decisions[0]
		return
	}
	a.Decision = root.Combine(a.Decisions)
}

// chargeShadowed executes verb separately for each check in shadow mode, so that an
// error for one check affects neither the other checks nor the request. If the enforced
// checks denied the request, it peeks instead of taking.
func (s *ActiveConfig) chargeShadowed(ctx context.Context, now headgate.Instant, verb headgate.Verb, a *Answer) {
	hasEnforced := len(a.Rules) > 0
	if hasEnforced && !a.Allowed && verb == headgate.Take {
		verb = headgate.Peek
	}
	a.eachShadow(func(from, to int) error { return s.apply(ctx, now, verb, &a.shadowed, from, to) })
	if !hasEnforced {
		a.allowShadowed()
	}
}

// eachShadow calls apply with the indexes of the charges of each check in shadow mode,
// and sets its result.
func (a *Answer) eachShadow(apply func(from, to int) error) {
	from := 0
	for i := range a.Shadows {
		w := &a.Shadows[i]
		to := a.shadowed.endOfCheck(w.Check, from)
		w.first = from
		if w.Err = apply(from, to); w.Err != nil {
			a.shadowed.setFailed(from, to, w.Err)
		}
		if to = a.shadowed.foldBans(from, to); w.Err == nil {
			w.Decision = combineDecisions(a.shadowed.Decisions[from:to])
			w.DeniedBy = a.shadowed.firstDenial(from, to)
		}
		w.end, from = to, to
	}
}

// setFailed sets the decisions of the charges with the indexes from, …, to-1, for which a
// call has returned err. If a hold was not open, the store has returned a peek.
func (c *charges) setFailed(from, to int, err error) {
	for i := from; i < to; i++ {
		if d := &c.Decisions[i]; d.Limit == 0 || !isNotOpen(err) {
			*d = unusedDecision(c.rules[i])
			d.Degraded = reasonOf(err)
		}
	}
}

// allowShadowed sets the answer for a request all of whose checks are in shadow mode.
func (a *Answer) allowShadowed() {
	for i := range a.shadowed.Decisions {
		forceAllow(&a.shadowed.Decisions[i])
	}
	a.combine(&a.shadowed)
	a.Unenforced = true
}

// firstDenial returns the rule of the first denied charge with an index in from, …,
// to-1, or nil if none was denied.
func (c *charges) firstDenial(from, to int) *Rule {
	for i := from; i < to; i++ {
		if !c.Decisions[i].Allowed {
			return c.rules[i]
		}
	}
	return nil
}

func combineDecisions(decisions []headgate.Decision) headgate.Decision {
	if len(decisions) == 1 {
		return decisions[0]
	}
	return root.Combine(decisions)
}

// forceAllow changes a decision to allow the request immediately. It does not change
// Limit, Remaining and ResetAfter.
func forceAllow(d *headgate.Decision) {
	d.Allowed, d.Never, d.RetryAfter, d.Delay, d.DeniedBy = true, false, 0, 0, nil
}

// unusedDecision returns the decision for a key that has never been used.
func unusedDecision(r *Rule) headgate.Decision {
	return headgate.Decision{Allowed: true, Limit: r.Capacity(), Remaining: r.Capacity()}
}

// allowUnused sets the answer for enforcement Off: it allows the request and reports
// every key as unused.
func (a *Answer) allowUnused() {
	for i, r := range a.enforced.rules {
		a.enforced.Decisions[i] = unusedDecision(r)
	}
	a.combine(&a.enforced)
	a.Unenforced = true
}

// reasonOf returns the reason of a store error, or ReasonNone for any other error.
func reasonOf(err error) headgate.StoreErrorReason {
	if cause := (*headgate.StoreError)(nil); errors.As(err, &cause) {
		return cause.Reason
	}
	return headgate.ReasonNone
}
