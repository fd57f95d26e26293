package engine

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// Check is one charge: a named policy, or a limit and an algorithm of its own, and whom it concerns.
type Check struct {
	Policy    string // the policy's name; empty means that Limit and Algorithm say what holds
	Limit     string // the limit's text, as [headgate.ParseLimit] reads it
	Algorithm string // the algorithm's name; empty means token_bucket
	Key       string // whose budget; may be empty
	Cost      int64  // units, at least 0
}

// Answer is what [Engine.Decide] found. Its zero value is ready; used again it keeps its memory, so a door should keep some.
type Answer struct {
	// Decision is the one answer for the request, as [headgate.Combine] makes it.
	headgate.Decision
	// Policy is the policy that Limit, Remaining and ResetAfter are of; empty for a check that brought its own limit.
	Policy string
	// Rules are all limits that took part, in the order of the request, and Decisions what each of them said.
	Rules     []*Rule
	Decisions []headgate.Decision
	// Tightest is the index of the limit that Limit, Remaining and ResetAfter are of.
	Tightest int

	ops []headgate.Op
}

// Decide does verb for all checks, at the store's own clock; see [Engine.DecideAt].
func (e *Engine) Decide(ctx context.Context, verb headgate.Verb, checks []Check, a *Answer) error {
	return e.DecideAt(ctx, headgate.StoreClock, verb, checks, a)
}

// DecideAt does verb for all checks at now and writes the answer to a. A take is for all checks or for none, in one operation
// of the store. A refund and a reset are done check by check, so that an error can leave some of them done; the answer is a
// peek with cost 0 after the last. One check under one limit is one operation and allocates nothing.
//
// A request that cannot be decided as it stands is a [*CheckError] that names the place. [KindOf] sorts every error. No error
// holds a key. The checks are not retained.
func (e *Engine) DecideAt(ctx context.Context, now headgate.Instant, verb headgate.Verb, checks []Check, a *Answer) error {
	a.Decision, a.Policy, a.Tightest = headgate.Decision{}, "", 0
	a.Rules, a.Decisions, a.ops = a.Rules[:0], a.Decisions[:0], a.ops[:0]
	defer func() { clear(a.ops) }()
	if err := e.resolve(checks, a); err != nil {
		return err
	}
	if err := e.apply(ctx, now, verb, a); err != nil {
		return err
	}
	a.combine()
	return nil
}

// resolve finds the rules of every check.
func (e *Engine) resolve(checks []Check, a *Answer) error {
	if n := len(checks); n < 1 || n > e.maxChecks {
		return &CheckError{Index: -1, Field: "checks", Err: fmt.Errorf("%w: %d checks in one request; accepted are 1 to %d",
			ErrInvalidRequest, n, e.maxChecks)}
	}
	for i := range checks {
		if field, err := e.resolveOne(&checks[i], a); err != nil {
			return &CheckError{Index: i, Field: field, Err: err}
		}
	}
	return nil
}

// resolveOne adds the rules of one check to a, or says which field is wrong with it.
func (e *Engine) resolveOne(c *Check, a *Answer) (field string, err error) {
	if len(c.Key) > e.maxKeyBytes {
		return "key", fmt.Errorf("%w: the key has %d bytes; accepted are at most %d", ErrInvalidRequest, len(c.Key), e.maxKeyBytes)
	}
	if c.Cost < 0 {
		return "cost", fmt.Errorf("%w: %d; accepted are whole numbers from 0 (0 only asks)", headgate.ErrInvalidCost, c.Cost)
	}
	if c.Policy != "" {
		rules, ok := e.policies[c.Policy]
		if !ok {
			return "policy", e.unknownPolicy(c.Policy)
		}
		for _, r := range rules {
			a.add(r, c)
		}
		return "", nil
	}
	first, err := e.inlineRule(inlineKey{c.Limit, c.Algorithm, 0})
	if err != nil {
		return inlineField(err), err
	}
	r := first
	if n := a.ordinalOf(first, c.Key); n > 0 {
		if r, err = e.inlineRule(inlineKey{c.Limit, c.Algorithm, n}); err != nil {
			return inlineField(err), err
		}
	}
	a.add(r, c)
	return "", nil
}

func (a *Answer) add(r *Rule, c *Check) {
	a.Rules = append(a.Rules, r)
	a.ops = append(a.ops, headgate.Op{Bound: r.bound, Key: c.Key, Cost: c.Cost})
	a.Decisions = append(a.Decisions, headgate.Decision{})
}

func (e *Engine) apply(ctx context.Context, now headgate.Instant, verb headgate.Verb, a *Answer) (err error) {
	if len(a.ops) == 1 {
		op := &a.ops[0]
		a.Decisions[0], err = op.Bound.Apply(ctx, now, op.Key, verb, op.Cost)
		return err
	}
	if verb == headgate.Take || verb == headgate.Peek {
		return e.store.ApplyAll(ctx, now, a.ops, verb == headgate.Peek, a.Decisions)
	}
	for i := range a.ops {
		op := &a.ops[i]
		if _, err := op.Bound.Apply(ctx, now, op.Key, verb, op.Cost); err != nil {
			return err
		}
		op.Cost = 0
	}
	return e.store.ApplyAll(ctx, now, a.ops, true, a.Decisions)
}

// combine makes the one answer of all decisions.
func (a *Answer) combine() {
	for i := range a.Decisions {
		if a.Decisions[i].Remaining < a.Decisions[a.Tightest].Remaining {
			a.Tightest = i
		}
	}
	a.Policy = a.Rules[a.Tightest].Policy
	if len(a.Decisions) == 1 {
		a.Decision = a.Decisions[0]
		return
	}
	a.Decision = headgate.Combine(a.Decisions)
}
