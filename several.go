package headgate

import (
	"context"
	"fmt"
)

// Check is one of several charges that are admitted together or not at all: see [AllowAll].
type Check struct {
	Limiter *Limiter
	Key     string
	Cost    int64
}

// AllowAll charges every check, or none if one is denied: a limit per address and one per account on the same login, say. All
// limiters must be over one store. The answer is that of [Combine]; the same key under the same policy counts twice.
func AllowAll(ctx context.Context, checks ...Check) (Decision, error) {
	return AllowAllAt(ctx, StoreClock, checks...)
}

// AllowAllAt is [AllowAll] at the instant now.
func AllowAllAt(ctx context.Context, now Instant, checks ...Check) (Decision, error) {
	return applyAll(ctx, now, checks, false)
}

// PeekAll says what [AllowAll] would answer, and spends nothing.
func PeekAll(ctx context.Context, checks ...Check) (Decision, error) {
	return PeekAllAt(ctx, StoreClock, checks...)
}

// PeekAllAt is [PeekAll] at the instant now.
func PeekAllAt(ctx context.Context, now Instant, checks ...Check) (Decision, error) {
	return applyAll(ctx, now, checks, true)
}

func applyAll(ctx context.Context, now Instant, checks []Check, peek bool) (Decision, error) {
	ops, err := opsOf(now, checks)
	if err != nil {
		return Decision{}, err
	}
	decisions := make([]Decision, len(ops))
	err = checks[0].Limiter.store.ApplyAll(ctx, now, ops, peek, decisions)
	observeAll(checks, decisions, peek, err)
	if err != nil {
		return Decision{}, err
	}
	return Combine(decisions), nil
}

func opsOf(now Instant, checks []Check) ([]Op, error) {
	if len(checks) < 1 || len(checks) > MaxLimits {
		return nil, fmt.Errorf("%w: %d checks in one request; accepted are 1 to %d", ErrInvalidPolicy, len(checks), MaxLimits)
	}
	ops := make([]Op, 0, len(checks))
	for i, c := range checks {
		if c.Limiter == nil || c.Limiter.store != checks[0].Limiter.store {
			return nil, fmt.Errorf("%w: check %d is not over the first one's store; all or none needs one store", ErrInvalidPolicy, i+1)
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

// observeAll tells each limiter's observer its own part of the answer.
func observeAll(checks []Check, decisions []Decision, peek bool, err error) {
	verb := Take
	if peek {
		verb = Peek
	}
	for _, c := range checks {
		n := len(c.Limiter.bounds)
		if c.Limiter.observer != nil {
			e := Event{Policy: c.Limiter.policy.Name, Verb: verb.String(), Cost: c.Cost, Err: err}
			if err == nil {
				e.Decision = Combine(decisions[:n])
			}
			c.Limiter.observer.Observe(e)
		}
		decisions = decisions[n:]
	}
}

// Tightest returns the index of the decision with the least Remaining, the first of equals, whether or not it denied: the one that
// an answer about several reports. It returns 0 for none.
func Tightest(decisions []Decision) int {
	tightest := 0
	for i := range decisions {
		if decisions[i].Remaining < decisions[tightest].Remaining {
			tightest = i
		}
	}
	return tightest
}

// Combine is the one answer for several decisions on one request, at least one: allowed if all are. RetryAfter is the longest
// of those that denied, Delay the longest of all, DeniedBy names every limit that denied; Limit, Remaining and ResetAfter are
// those of the [Tightest]. If one can never be admitted neither can the whole; if one
// is degraded so is the whole.
func Combine(decisions []Decision) Decision {
	tightest := &decisions[Tightest(decisions)]
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
	if d.Degraded == NoTrouble {
		d.Degraded = part.Degraded
	}
	d.Delay = max(d.Delay, part.Delay)
	if part.Allowed {
		return
	}
	d.Allowed = false
	d.Never = d.Never || part.Never
	d.RetryAfter = max(d.RetryAfter, part.RetryAfter)
	d.DeniedBy = append(d.DeniedBy, part.DeniedBy...)
}
