package engine

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

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

// clear removes the result of the previous request from a.
func (a *Answer) clear(generation uint64) {
	a.Decision, a.Policy, a.Tightest, a.Unenforced, a.Generation = headgate.Decision{}, "", 0, false, generation
	a.Rules, a.Decisions, a.Shadows = nil, nil, a.Shadows[:0]
	a.Replayed, a.Granted, a.Uncounted = false, 0, 0
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

// allowUnused sets the answer for enforcement Off: it allows the request and reports
// every key as unused.
func (a *Answer) allowUnused() {
	for i, r := range a.enforced.rules {
		a.enforced.Decisions[i] = unusedDecision(r)
	}
	a.combine(&a.enforced)
	a.Unenforced = true
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
