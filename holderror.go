package headgate

import (
	"errors"
	"fmt"
	"slices"
)

// holdError returns the error of an operation on a hold, from the results of its limits.
// ruleOf returns the rule of the i-th limit. at is the instant of the operation, expires
// the deadline of the hold, and degraded the reason why a failure mode opened it.
//
// If some limits do not know the hold, the operation has changed the others. A rate
// without the hold has nothing to correct, so this is an error only if no limit knows the
// hold. A lost slot is an error, because another hold may have it: the work should stop.
func holdError(results []HoldResult, ruleOf func(i int) Rule, at, expires Instant, degraded StoreErrorReason) error {
	var lost error
	known, lostSlot := false, ""
	for i := range results {
		r := ruleOf(i)
		if r.Limit.isConstant() {
			continue // it keeps no record of a hold
		}
		switch err := limitError(results[i].Err, r, at, expires, degraded); {
		case err == nil:
			known = true
		case lostSlot == "":
			if lost = err; r.Algorithm.OnlyHolds() {
				lostSlot = r.Name
			}
		}
	}
	switch {
	case !known:
		return lost
	case lostSlot != "":
		return fmt.Errorf("%w; the slot under %q is lost, and the other limits of the hold were changed: stop the work", lost, lostSlot)
	}
	return nil
}

// limitError returns the error of an operation on a hold for one limit, where err is the
// error of the store. Before the deadline, a hold that a failure mode has opened has
// nothing to correct. The same applies after the deadline if the failure mode is open,
// because the hold was never in a store.
func limitError(err error, r Rule, at, expires Instant, degraded StoreErrorReason) error {
	switch {
	case !errors.Is(err, ErrUnknownHold):
		return err
	case degraded != ReasonNone && (at < expires || r.OnStoreError == FailOpen):
		return nil
	case at >= expires:
		return fmt.Errorf("%w: its units were kept or released, as its policy requires; open a new hold", ErrExpiredHold)
	}
	return fmt.Errorf("%w: it was never opened, it has ended, its key was reset, or the limits of its policy have changed", ErrUnknownHold)
}

// outcome returns the result and the error of an operation on h at an instant, from the
// results of all limits of checks.
func (h *Hold) outcome(at Instant, checks []Check, results []HoldResult) (HoldResult, error) {
	result := combineResults(results)
	if !slices.ContainsFunc(results, func(r HoldResult) bool { return r.Err != nil }) {
		return result, nil
	}
	var rules []Rule
	for _, c := range checks {
		rules = append(rules, c.Limiter.policy.rules()...)
	}
	ruleOf := func(i int) Rule { return rules[i] }
	err := holdError(results, ruleOf, at, Instant(h.expires.Load()), h.decision.Degraded)
	switch {
	case err != nil:
		return HoldResult{}, err
	case h.decision.Degraded != ReasonNone:
		result.Decision = h.decision // the limits that do not know the hold have no decision
	}
	return result, nil
}

// combineResults merges the results of several limits. Its deadline is the earliest one.
func combineResults(results []HoldResult) (all HoldResult) {
	decisions := make([]Decision, len(results))
	for i := range results {
		r := &results[i]
		decisions[i], all.Granted = r.Decision, r.Granted
		all.Replayed = all.Replayed || r.Replayed
		if r.Deadline != 0 && (all.Deadline == 0 || r.Deadline < all.Deadline) {
			all.Deadline = r.Deadline
		}
	}
	all.Decision = combine(decisions)
	return all
}
