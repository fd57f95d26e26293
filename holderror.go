package headgate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/hooks"
)

// heldLimit is a limit of a hold.
type heldLimit = hooks.HeldLimit[Rule]

// holdError returns the error of an operation on a hold, from the results of its limits.
// limits has the limit of each result, after sumExcess. at is the instant of the
// operation, expires the deadline of the hold, and degraded the reason why a failure mode
// opened it. uncounted is [HoldResult.Uncounted].
//
// If some limits do not know the hold, the operation has changed the others. If a rate
// does not have the hold, its charge has already been removed or kept, and there is
// nothing to correct. So this is an error only if no limit knows the hold, with two
// exceptions. A lost slot is an error, because another hold may have it: the work should
// stop. Units above the amount are an error, because the rate has not counted them. They
// are not charged here: a commit can be repeated, and a rate without a record of the hold
// would charge them again each time.
func holdError(
	results []HoldResult, limits []heldLimit, at, expires Instant, degraded StoreErrorReason,
) (uncounted int64, _ error) {
	var lost error
	known, slot := false, ""
	var missing []string
	for i := range results {
		r, excess := &limits[i].Rule, limits[i].Excess
		if r.Limit.isUncounted() {
			continue // it keeps no record of a hold
		}
		err := limitError(results[i].Err, r, at, expires, degraded)
		if err == nil {
			if known = true; lacksCommit(&results[i], r, degraded) {
				uncounted = max(uncounted, excess)
			}
			continue
		}
		if slot == "" {
			lost = err
		}
		if r.Algorithm.OnlyHolds() {
			slot = cmp.Or(slot, r.Name)
		} else if excess > 0 {
			missing = append(missing, fmt.Sprintf("%d under %q", excess, r.Name))
		}
	}
	if known {
		lost = errPartlyLost(lost, slot, missing)
	}
	return uncounted, lost
}

// sumAndHoldError is holdError after sumExcess.
func sumAndHoldError(
	results []HoldResult, limits []heldLimit, at, expires Instant, degraded StoreErrorReason,
) (uncounted int64, _ error) {
	sumExcess(limits)
	return holdError(results, limits, at, expires, degraded)
}

// lacksCommit reports whether the limit of a rule does not count the units of a commit,
// because a failure mode decides for it. degraded is as in holdError. The failure mode
// local counts them in the store that has opened the hold.
func lacksCommit(result *HoldResult, r *Rule, degraded StoreErrorReason) bool {
	if result.Err != nil { // the failure mode has opened the hold in no store
		return true
	}
	return result.Degraded != ReasonNone && (degraded == ReasonNone || r.OnStoreError != FailLocal)
}

// sumExcess adds up the Excess of limits with the same state of the same key, for example
// those of two checks with one policy and key, because they have one hold. The first of
// them gets the sum, and the others get 0.
func sumExcess(limits []heldLimit) {
	for i := range limits {
		l := &limits[i]
		for j := range i {
			first := &limits[j]
			if first.Key == l.Key && first.Rule.Scope == l.Rule.Scope && first.Rule.Algorithm == l.Rule.Algorithm {
				first.Excess += l.Excess
				l.Excess = 0
				break
			}
		}
	}
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
// error of the store. A hold that the failure mode open has allowed was never in a store,
// so there is nothing to correct, also after the deadline. The failure mode local opens a
// hold in the local store of one process, and the failure mode closed opens none.
func limitError(err error, r *Rule, at, expires Instant, degraded StoreErrorReason) error {
	switch {
	case !errors.Is(err, ErrUnknownHold):
		return err
	case degraded != ReasonNone && r.OnStoreError == FailOpen:
		return nil
	case at >= expires:
		return fmt.Errorf("%w: its units were kept or released (on_expiry); charge the actual cost with a debit, or open a new hold", ErrExpiredHold)
	case degraded != ReasonNone:
		return fmt.Errorf("%w: it was opened while the store was unavailable, and is not in the local store of this process;"+
			" use the process that opened it, or charge the actual cost with a debit", ErrUnknownHold)
	}
	return fmt.Errorf("%w: it was never opened, it has ended, its key was reset, or the limits of its policy have changed;"+
		" open a new hold, or charge the cost with a debit", ErrUnknownHold)
}

// finalResult merges the results of limits of h, and returns the result and the error
// that the caller of the method receives. at is the instant of the operation. results has
// the results of some adjacent limits of h, which begin with the limit at the index
// first. actual has the actual costs of a commit, one for each check of h; for another
// operation, it is nil.
func (h *Hold) finalResult(at Instant, actual []int64, first int, results []HoldResult) (HoldResult, error) {
	result := combineResults(results)
	failed := slices.ContainsFunc(results, func(r HoldResult) bool { return r.Err != nil })
	if !failed && (actual == nil || result.Degraded == ReasonNone) {
		return result, nil
	}
	limits := h.limits(actual)
	uncounted, err := holdError(results, limits[first:], at, Instant(h.expires.Load()), h.decision.Degraded)
	if err != nil {
		return HoldResult{}, err
	}
	if failed && h.decision.Degraded != ReasonNone {
		result.Decision = h.decision // the limits that do not know the hold have no decision
	}
	result.Uncounted = uncounted
	return result, nil
}

// limits returns the limits of all checks of h. actual is as in finalResult.
func (h *Hold) limits(actual []int64) []heldLimit {
	var limits []heldLimit
	for i, c := range h.checks {
		for j, r := range c.Limiter.policy.rules() {
			l := heldLimit{Rule: r, Key: c.Key}
			if actual != nil {
				l.Excess = actual[i] - r.Holds.ChargedUnits(c.Cost, c.Limiter.bounds[j].Limit())
			}
			limits = append(limits, l)
		}
	}
	sumExcess(limits)
	return limits
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
