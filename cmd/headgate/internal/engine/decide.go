package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/root"
)

// Check is one charge: a named policy, or a limit of its own as text or as a value, and whom it concerns.
type Check struct {
	Policy    string       // the policy's name; empty means that Own, or Limit and Algorithm, say what holds
	Limit     string       // the limit's text, as [headgate.ParseLimit] reads it
	Algorithm string       // the algorithm's name; empty means token_bucket
	Inline    *InlineLimit // a limit as a value, in place of both; not retained
	Key       string       // whose budget; may be empty
	Cost      int64        // units, at least 0
}

// Answer is what [Engine.Decide] found. Its zero value is ready; used again it keeps its memory, so a door should keep some.
type Answer struct {
	// Decision is the one answer for the request, as [root.Combine] makes it. Policies that only watch have no part in it, unless
	// there are no others: it then says what they have left, and is always allowed.
	headgate.Decision
	// Policy is the policy that Limit, Remaining and ResetAfter are of; empty for a check that brought its own limit.
	Policy string
	// Rules are all limits that Decision is made of, in the order of the request, and Decisions what each of them said.
	Rules     []*Rule
	Decisions []headgate.Decision
	// Tightest is the index of the limit that Limit, Remaining and ResetAfter are of.
	Tightest int
	// Unenforced says that no limit of the request could have denied it: all of them only watch, or nothing is enforced. A door then tells
	// its clients nothing that they would slow down for.
	Unenforced bool
	// Shadows are what checks that only watched would have answered, in the order of the request.
	Shadows []ShadowResult
	// Generation is that of the snapshot that decided.
	Generation uint64

	counted, watched charges
	admits           bool   // the request can be held
	event            Event  // kept here, so that telling it allocates nothing
	lot              uint64 // which requests begin with the observer
	recent           recentRule
}

// Watched is what one check would have answered, had it counted.
type ShadowResult struct {
	Check    int               // its place in the request, from 0
	Policy   string            // its policy; empty for a check that brought its own limit
	Decision headgate.Decision // zero if Err is set
	DeniedBy *Rule             // the first limit that denied; nil if none did
	Err      error             // why nothing was decided
	first    int               // the place of its first limit among those that are watched
	end      int               // and behind its last
}

// charges are what is asked of the store at once: rules, ops and decisions belong together by their place.
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

// Decide does verb for all checks, at the store's own clock; see [Snapshot.DecideAt].
func (e *Engine) Decide(ctx context.Context, verb headgate.Verb, checks []Check, a *Answer) error {
	return e.holds.Load().DecideAt(ctx, headgate.StoreClock, verb, checks, a)
}

// Decide does verb for all checks, at the store's own clock; see [Snapshot.DecideAt].
func (s *ActiveConfig) Decide(ctx context.Context, verb headgate.Verb, checks []Check, a *Answer) error {
	return s.DecideAt(ctx, headgate.StoreClock, verb, checks, a)
}

// DecideAt is [Snapshot.DecideAt] of the snapshot that holds now.
func (e *Engine) DecideAt(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	return e.holds.Load().DecideAt(ctx, now, verb, checks, a)
}

// DecideAt does verb for all checks at now and writes the answer to a. A take is for all checks or for none, in one operation
// of the store, and one more for each check that only watches. A refund and a reset are done check by check, so that an error can
// leave some of them done; the answer is a peek with cost 0 after the last. One check under one limit is one operation and allocates
// nothing.
//
// A request that cannot be decided as it stands is a [*CheckError] that names the place. [KindOf] sorts every error. No error
// holds a key. The checks are not retained.
func (s *ActiveConfig) DecideAt(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	a.Decision, a.Policy, a.Tightest, a.Unenforced, a.Generation = headgate.Decision{}, "", 0, false, s.generation
	a.Rules, a.Decisions, a.Shadows = nil, nil, a.Shadows[:0]
	defer a.forgetKeys()
	if s.observer == nil {
		return s.decide(ctx, now, verb, checks, a)
	}
	s.begin(a)
	err := s.decide(ctx, now, verb, checks, a)
	s.tell(verb, a, err)
	return err
}

// decide is DecideAt with an answer that is cleared.
func (s *ActiveConfig) decide(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	if err := s.resolve(checks, a); err != nil {
		return err
	}
	if s.enforcement == Off && verb != headgate.Reset {
		a.waveThrough()
		return nil
	}
	if len(a.counted.Ops) > 0 {
		if err := s.count(ctx, now, verb, a); err != nil {
			return err
		}
		a.combine(&a.counted)
		a.Unenforced = s.enforcement == Off // of a reset, which is done all the same
	}
	if len(a.Shadows) > 0 {
		s.watch(ctx, now, verb, checks, a)
	}
	return nil
}

// count does verb for the charges that count.
func (s *ActiveConfig) count(ctx context.Context, now headgate.Instant, verb headgate.Verb, a *Answer) error {
	if !a.admits {
		return s.apply(ctx, now, verb, &a.counted, 0, len(a.counted.Ops))
	}
	if len(a.Shadows) > 0 {
		a.watched.MarkTaken(now)
	}
	return a.counted.Take(ctx, s.store, now)
}

// forgetKeys leaves the rules and decisions to the caller, and the keys only to a request that is held.
func (a *Answer) forgetKeys() {
	if a.admits && a.Delay > 0 {
		return
	}
	clear(a.counted.Ops)
	clear(a.watched.Ops)
}

// resolve finds the rules of every check.
func (s *ActiveConfig) resolve(checks []Check, a *Answer) error {
	a.counted.reset()
	a.watched.reset()
	if n := len(checks); n < 1 || n > s.maxChecks {
		return &CheckError{Index: -1, Field: "checks", Err: fmt.Errorf("%w: %d checks in one request; accepted are 1 to %d",
			ErrInvalidRequest, n, s.maxChecks)}
	}
	for i := range checks {
		if field, err := s.resolveOne(i, &checks[i], a); err != nil {
			return &CheckError{Index: i, Field: field, Err: err}
		}
	}
	return nil
}

// resolveOne adds the rules of one check to a, or says which field is wrong with it.
func (s *ActiveConfig) resolveOne(i int, c *Check, a *Answer) (field string, err error) {
	if len(c.Key) > s.maxKeyBytes {
		return "key", fmt.Errorf("%w: the key has %d bytes; accepted are at most %d", ErrInvalidRequest, len(c.Key), s.maxKeyBytes)
	}
	if c.Cost < 0 {
		return "cost", fmt.Errorf("%w: %d; accepted are whole numbers from 0 (0 only asks)", headgate.ErrInvalidCost, c.Cost)
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

// chargesFor are the charges that a check belongs to: those that count, or those that are only watched.
func (s *ActiveConfig) chargesFor(i int, policy string, enforced bool, a *Answer) *charges {
	if s.enforcement == Off || enforced && s.enforcement != Shadow {
		return &a.counted
	}
	a.Shadows = append(a.Shadows, ShadowResult{Check: i, Policy: policy})
	return &a.watched
}

// ruleOf is the rule of a check that brought its own limit, behind the others of its request.
func (s *ActiveConfig) ruleOf(c *Check, others *charges, a *Answer) (*Rule, error) {
	if c.Inline != nil {
		return a.ownRule(s, c.Inline)
	}
	first, err := s.inlineRule(inlineKey{c.Limit, c.Algorithm, 0})
	if err != nil {
		return nil, err
	}
	if n := others.ordinalOf(first, c.Key); n > 0 {
		return s.inlineRule(inlineKey{c.Limit, c.Algorithm, n})
	}
	return first, nil
}

// apply does verb for the charges from one place to another.
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

// combine makes the one answer of all decisions.
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

// watch asks for each check that does not count, by itself: what it cannot decide is nobody's trouble. What the others denied is
// not charged.
func (s *ActiveConfig) watch(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) {
	counts := len(a.Rules) > 0
	if counts && !a.Allowed && verb == headgate.Take {
		verb = headgate.Peek
	}
	from := 0
	for i := range a.Shadows {
		w := &a.Shadows[i]
		to := from + s.width(&checks[w.Check])
		w.first, w.end = from, to
		if w.Err = s.apply(ctx, now, verb, &a.watched, from, to); w.Err != nil {
			for j := from; j < to; j++ {
				a.watched.Decisions[j] = unspent(a.watched.rules[j])
				a.watched.Decisions[j].Degraded = troubleOf(w.Err)
			}
		} else {
			w.Decision = one(a.watched.Decisions[from:to])
			w.DeniedBy = a.watched.denier(from, to)
		}
		from = to
	}
	if !counts {
		for i := range a.watched.Decisions {
			admit(&a.watched.Decisions[i])
		}
		a.combine(&a.watched)
		a.Unenforced = true
	}
}

// denier is the first rule between two places that denied; nil if none did.
func (c *charges) denier(from, to int) *Rule {
	for i := from; i < to; i++ {
		if !c.Decisions[i].Allowed {
			return c.rules[i]
		}
	}
	return nil
}

// width is how many rules a check has.
func (s *ActiveConfig) width(c *Check) int {
	if c.Policy == "" {
		return 1
	}
	return len(s.policies[c.Policy].rulesFor(c.Key))
}

func one(decisions []headgate.Decision) headgate.Decision {
	if len(decisions) == 1 {
		return decisions[0]
	}
	return root.Combine(decisions)
}

// admit makes a decision one that lets the request go ahead at once, and leaves what it says of the budget.
func admit(d *headgate.Decision) {
	d.Allowed, d.Never, d.RetryAfter, d.Delay, d.DeniedBy = true, false, 0, 0, nil
}

// unspent is the decision about a key that was never used.
func unspent(r *Rule) headgate.Decision {
	return headgate.Decision{Allowed: true, Limit: r.Capacity(), Remaining: r.Capacity()}
}

// waveThrough is the answer while nothing is enforced: that of keys that were never used.
func (a *Answer) waveThrough() {
	for i, r := range a.counted.rules {
		a.counted.Decisions[i] = unspent(r)
	}
	a.combine(&a.counted)
	a.Unenforced = true
}

// troubleOf is the trouble that a store told of.
func troubleOf(err error) headgate.StoreErrorReason {
	if cause := (*headgate.StoreError)(nil); errors.As(err, &cause) {
		return cause.Reason
	}
	return headgate.ReasonNone
}
