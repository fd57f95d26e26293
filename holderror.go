package headgate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// holdError returns the error of an operation on a hold, from the results of its limits.
// limitOf returns the rule of the i-th limit and, for a commit, by how many units the
// actual cost is above the amount of the hold; otherwise 0 or less. at is the instant of
// the operation, expires the deadline of the hold, and degraded the reason why a failure
// mode opened it.
//
// If some limits do not know the hold, the operation has changed the others. A rate
// without the hold has nothing to correct, so this is an error only if no limit knows the
// hold, with two exceptions. A lost slot is an error, because another hold may have it:
// the work should stop. Units above the amount are an error, because the rate has not
// counted them. They are not charged here: a commit can be repeated, and a rate without a
// record of the hold would charge them again each time.
func holdError(results []HoldResult, limitOf func(i int) (Rule, int64), at, expires Instant, degraded StoreErrorReason) error {
	var lost error
	known, slot := false, ""
	var uncounted []string
	for i := range results {
		r, excess := limitOf(i)
		if r.Limit.isConstant() {
			continue // it keeps no record of a hold
		}
		err := limitError(results[i].Err, r, at, expires, degraded)
		if err == nil {
			known = true
			continue
		}
		if slot == "" {
			lost = err
		}
		switch {
		case r.Algorithm.OnlyHolds():
			slot = cmp.Or(slot, r.Name)
		case excess > 0:
			uncounted = append(uncounted, fmt.Sprintf("%d under %q", excess, r.Name))
		}
	}
	if !known {
		return lost
	}
	return errPartlyLost(lost, slot, uncounted)
}

// errPartlyLost returns the error if only some limits know a hold. slot is the name of a
// limit whose slot is lost, or empty. uncounted has the limits that have not counted the
// units above the amount of the hold. If there are neither, the error is nil.
func errPartlyLost(lost error, slot string, uncounted []string) error {
	if slot == "" && len(uncounted) == 0 {
		return nil
	}
	if slot != "" {
		lost = fmt.Errorf("%w; the slot under %q is lost: stop the work", lost, slot)
	}
	if len(uncounted) > 0 {
		lost = fmt.Errorf("%w; the cost above the amount of the hold is not counted (%s): charge it with a debit", lost, strings.Join(uncounted, ", "))
	}
	return fmt.Errorf("%w; the other limits of the hold were changed", lost)
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
// results of all limits of checks. actual has the actual costs of a commit, one for each
// check; for another operation, it is nil.
func (h *Hold) outcome(at Instant, checks []Check, actual []int64, results []HoldResult) (HoldResult, error) {
	result := combineResults(results)
	if !slices.ContainsFunc(results, func(r HoldResult) bool { return r.Err != nil }) {
		return result, nil
	}
	var rules []Rule
	var excess []int64
	for i, c := range checks {
		for j, r := range c.Limiter.policy.rules() {
			rules, excess = append(rules, r), append(excess, 0)
			if actual != nil {
				excess[len(excess)-1] = actual[i] - r.Holds.ChargedUnits(c.Cost, c.Limiter.bounds[j].Limit())
			}
		}
	}
	limitOf := func(i int) (Rule, int64) { return rules[i], excess[i] }
	err := holdError(results, limitOf, at, Instant(h.expires.Load()), h.decision.Degraded)
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
