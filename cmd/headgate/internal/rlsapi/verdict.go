package rlsapi

import (
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// verdict is what the store's decisions mean for a descriptor. Of several verdicts the
// largest counts.
type verdict uint8

const (
	allowed verdict = iota
	over
	// undetermined: the store denied it behind another descriptor that it denied too.
	// With quota, the other one may be left out, and this one be allowed.
	undetermined
)

// result is what the last operation decided about one descriptor.
type result struct {
	verdict    verdict
	spent      int64               // of its first limit
	costBefore int64               // of the descriptors before it, on the limit that it is over
	decisions  []headgate.Decision // one for each limit
}

// judge sets the result of d to the store's decisions. The store decides each charge as
// if it came behind all charges before it, denied ones too.
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

// sumCostBefore adds up what the descriptors before d asked for of the state of one of
// its limits. It reports whether one of them was denied.
func (d *descriptor) sumCostBefore(l *envoyconfig.Limit, before []*descriptor) (cost int64, denied bool) {
	for _, b := range before {
		if b.key == d.key && slices.ContainsFunc(b.limits, l.SharesState) {
			cost, denied = cost+b.cost, denied || b.verdict != allowed
		}
	}
	return cost, denied
}

// remainingAfterOwn sets what was left just after d, if others of the same operation
// were charged to the same fixed window, in the order of the request. The store returns
// what is left after all of them.
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
	d.decisions[0].Remaining = min(limit, max(0, limit-spent+later)) // nothing was charged if the store is unavailable
}

// applyOverflow turns a decision about one hit more into one about the limit.
func (d *descriptor) applyOverflow(enforced bool) {
	first := &d.decisions[0]
	switch {
	case !d.hasOverflow():
	case first.Allowed && first.Remaining == 0 && enforced:
		d.verdict, first.Allowed, first.Remaining = over, false, max(0, d.cost-1) // as much was left before
	default:
		first.Remaining = max(0, first.Remaining-1)
	}
}

// hasOverflow reports whether the last decision is about one hit more than the limit. A
// local share of the limit, while the store is unavailable, has none.
func (d *descriptor) hasOverflow() bool {
	return d.overflow && d.decisions[0].Limit == d.limits[0].Inline.Limit.Rate
}

// tightest is the index of the limit that responses report: the denying limit with
// the longest wait, or the one with the least remaining if none denies.
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
