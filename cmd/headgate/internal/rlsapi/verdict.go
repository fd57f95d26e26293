package rlsapi

import (
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// verdict is the meaning of the store's decisions for a descriptor. Larger values are
// worse.
type verdict uint8

const (
	allowed verdict = iota
	over
	// undetermined: the store denied the descriptor after it had denied an earlier
	// descriptor on the same counter. In quota mode, the earlier one may be left out in
	// the next attempt, and this one may then be allowed.
	undetermined
)

// result is the result of the last store operation for one descriptor.
type result struct {
	verdict     verdict
	hitsCounted bool                // whether the store has counted hits that are over the limit
	isLocal     bool                // whether the hits are not counted, because of [Options].LocalDenials
	spent       int64               // spent units of the descriptor's first limit
	costBefore  int64               // cost of earlier descriptors on the limit that this descriptor is over
	decisions   []headgate.Decision // one for each limit
}

// judge sets the result of d from the store's decisions. The store decides each charge
// of an operation as if all earlier charges, including denied ones, had been spent.
func (d *descriptor) judge(decisions []headgate.Decision, before []*descriptor) {
	d.result = result{spent: decisions[0].Limit - decisions[0].Remaining, decisions: decisions}
	for i := range decisions {
		if decisions[i].Allowed {
			continue
		}
		cost, denied := d.sumCostBefore(&d.limits[i], before)
		if !d.quota || !denied {
			d.verdict, d.costBefore = over, cost
			return
		}
		d.verdict = undetermined
	}
}

// sumCostBefore returns the total cost of the descriptors in before that use the same
// counter as limit l of d. It also reports whether one of them was not allowed.
func (d *descriptor) sumCostBefore(l *envoyconfig.Limit, before []*descriptor) (cost int64, denied bool) {
	for _, b := range before {
		if b.key == d.key && slices.ContainsFunc(b.limits, l.SharesState) {
			cost, denied = cost+b.cost, denied || b.verdict != allowed
		}
	}
	return cost, denied
}

// remainingAfterOwn sets the remaining units of d to the number directly after d was
// charged, in the order of the request. This differs from the store's number if the
// same operation charged other descriptors to the same fixed window: the store returns
// what remains after all of them.
func (d *descriptor) remainingAfterOwn(asked []*descriptor) {
	if len(asked) == 1 || !d.isWindow() {
		return
	}
	spent, later := d.spent, int64(0)
	for _, o := range asked {
		if o == d || !o.isWindow() || o.key != d.key || !o.limits[0].SharesState(d.limits[0]) {
			continue
		}
		if spent = max(spent, o.spent); o.place > d.place {
			later += o.cost
		}
	}
	limit := d.decisions[0].Limit
	d.decisions[0].Remaining = min(limit, max(0, limit-spent+later)) // if the store is unavailable, nothing was charged
}

// applyOverflow converts a decision that was made with a limit one hit higher than the
// rule's limit (see [canOverflow]) to a decision for the rule's limit.
func (d *descriptor) applyOverflow(enforced bool) {
	first := &d.decisions[0]
	switch {
	case !d.hasOverflow():
	case first.Allowed && first.Remaining == 0 && enforced:
		d.verdict, d.hitsCounted = over, true
		first.Allowed, first.Remaining = false, max(0, d.cost-1) // the same number remained before
	default:
		first.Remaining = max(0, first.Remaining-1)
	}
}

// hasOverflow reports whether the last decision was made with a limit one hit higher
// than the rule's limit. It is false for a decision of the local fallback, which uses a
// share of the limit while the store is unavailable.
func (d *descriptor) hasOverflow() bool {
	return d.logged != nil && d.decisions[0].Limit == d.limits[0].Inline.Limit.Rate
}

// tightest returns the index of the limit that responses report: the denying limit with
// the longest wait, or the limit with the fewest remaining units if no limit denies.
func (d *descriptor) tightest() int {
	best := 0
	for i := 1; i < len(d.decisions); i++ {
		a, b := &d.decisions[best], &d.decisions[i]
		if a.Allowed && (!b.Allowed || b.Remaining < a.Remaining) || !a.Allowed && !b.Allowed && b.RetryAfter > a.RetryAfter {
			best = i
		}
	}
	return best
}
