package headgate

import (
	"context"
	"fmt"
	"time"
)

// Check is one charge in a call of [AllowAll], [PeekAll], [HoldAll] or [ResumeHold].
type Check struct {
	Limiter *Limiter
	Key     string
	Cost    int64
}

// AllowAll charges all checks, or none if any of them is denied. For example, a login
// can be limited per address and per account. All limiters must use the same store, in
// which the operation is atomic. If two checks have the same policy and key, both are
// charged.
//
// The returned decision is allowed if every check is allowed. Limit, Remaining and
// ResetAfter are those of the limit with the fewest remaining units (the first of them,
// if several are equal). RetryAfter is the longest of the limits that denied, Delay is
// the longest of all limits, and DeniedBy names every limit that denied. Never and
// Leased are true if they are true for any limit. Degraded is set if it is set for any
// limit.
func AllowAll(ctx context.Context, checks ...Check) (Decision, error) {
	return applyAll(ctx, StoreClock, checks, false)
}

// AllowAllAt is like [AllowAll] at the time now.
func AllowAllAt(ctx context.Context, now time.Time, checks ...Check) (Decision, error) {
	return applyAll(ctx, InstantOf(now), checks, false)
}

// PeekAll reports what [AllowAll] would decide, and spends nothing.
func PeekAll(ctx context.Context, checks ...Check) (Decision, error) {
	return applyAll(ctx, StoreClock, checks, true)
}

// PeekAllAt is like [PeekAll] at the time now.
func PeekAllAt(ctx context.Context, now time.Time, checks ...Check) (Decision, error) {
	return applyAll(ctx, InstantOf(now), checks, true)
}

func applyAll(ctx context.Context, now Instant, checks []Check, peek bool) (Decision, error) {
	ops, err := opsOf(now, checks)
	if err == nil && !peek {
		err = checkNoHolds(checks, Take.String())
	}
	if err != nil {
		return Decision{}, err
	}
	decisions := make([]Decision, len(ops))
	err = applyOps(ctx, checks[0].Limiter.store, now, ops, peek, decisions)
	observeAll(ctx, checks, decisions, peek, err)
	if err != nil {
		return Decision{}, err
	}
	return combine(decisions), nil
}

func opsOf(now Instant, checks []Check) ([]Op, error) {
	if len(checks) < 1 || len(checks) > MaxLimits {
		return nil, fmt.Errorf("%w: %d checks in one request; must be 1 to %d", ErrInvalidPolicy, len(checks), MaxLimits)
	}
	ops := make([]Op, 0, len(checks))
	for i, c := range checks {
		if c.Limiter == nil {
			return nil, fmt.Errorf("%w: check %d has no limiter", ErrInvalidPolicy, i+1)
		}
		if c.Limiter.store != checks[0].Limiter.store {
			return nil, fmt.Errorf("%w: check %d does not use the same store as check 1; all checks must use one store", ErrInvalidPolicy, i+1)
		}
		if err := checkRequest(now, c.Cost); err != nil {
			return nil, err
		}
		for _, b := range c.Limiter.bounds {
			ops = append(ops, Op{Bound: b, Key: c.Key, Cost: c.Cost})
		}
	}
	return ops, nil
}

// checkNoHolds returns [ErrHoldRequired] if only a hold can take units of a check.
func checkNoHolds(checks []Check, verb string) error {
	for i := range checks {
		if err := checks[i].Limiter.checkNoHold(verb); err != nil {
			return err
		}
	}
	return nil
}

// observeAll calls the observer of every limiter with the decision of that limiter's
// check.
func observeAll(ctx context.Context, checks []Check, decisions []Decision, peek bool, err error) {
	verb := Take
	if peek {
		verb = Peek
	}
	for _, c := range checks {
		n := len(c.Limiter.bounds)
		if c.Limiter.observer != nil {
			e := Event{Policy: c.Limiter.policy.Name, Verb: verb.String(), Cost: c.Cost, Err: err}
			if err == nil {
				e.Decision = combine(decisions[:n])
			}
			observe(ctx, c.Limiter.observer, e)
		}
		decisions = decisions[n:]
	}
}

// tightestOf returns the index of the decision with the fewest remaining units, the
// first of them if several are equal. It returns 0 if decisions is empty.
func tightestOf(decisions []Decision) int {
	tightest := 0
	for i := range decisions {
		if decisions[i].Remaining < decisions[tightest].Remaining {
			tightest = i
		}
	}
	return tightest
}

// combine merges the decisions of several limits on one request into one decision; see
// [AllowAll]. There must be at least one decision.
func combine(decisions []Decision) Decision {
	tightest := &decisions[tightestOf(decisions)]
	all := Decision{Allowed: true, Limit: tightest.Limit, Remaining: tightest.Remaining, ResetAfter: tightest.ResetAfter}
	for i := range decisions {
		all.add(&decisions[i])
	}
	if all.Never {
		all.RetryAfter = 0
	}
	if !all.Allowed {
		all.Delay = 0
	}
	return all
}

func (d *Decision) add(part *Decision) {
	if d.Degraded == ReasonNone {
		d.Degraded = part.Degraded
	}
	d.Leased = d.Leased || part.Leased
	d.Delay = max(d.Delay, part.Delay)
	if part.Allowed {
		return
	}
	d.Allowed = false
	d.Never = d.Never || part.Never
	d.RetryAfter = max(d.RetryAfter, part.RetryAfter)
	d.DeniedBy = append(d.DeniedBy, part.DeniedBy...)
}
