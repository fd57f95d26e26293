package engine

import (
	"context"

	"github.com/headgate/headgate"
)

// ShadowResult is the result for one check in shadow mode.
type ShadowResult struct {
	Check    int               // index of the check in the request, from 0
	Policy   string            // name of the check's policy; empty for a check without a policy
	Decision headgate.Decision // decision for the check; zero if Err is set
	DeniedBy *Rule             // first limit that would have denied the request; nil if none
	Err      error             // error that prevented the decision, or nil
	first    int               // index of the check's first limit in Answer.shadowed
	end      int               // index after the check's last limit in Answer.shadowed
}

// chargeShadowed executes verb separately for each check in shadow mode, so that an
// error for one check affects neither the other checks nor the request. If the enforced
// checks denied the request, it peeks instead of taking.
func (s *ActiveConfig) chargeShadowed(ctx context.Context, now headgate.Instant, verb headgate.Verb, a *Answer) {
	hasEnforced := len(a.Rules) > 0
	if hasEnforced && !a.Allowed && verb == headgate.Take {
		verb = headgate.Peek
	}
	a.eachShadow(func(from, to int) error { return s.apply(ctx, now, verb, &a.shadowed, from, to) })
	if !hasEnforced {
		a.allowShadowed()
	}
}

// eachShadow calls apply with the indexes of the charges of each check in shadow mode,
// and sets its result.
func (a *Answer) eachShadow(apply func(from, to int) error) {
	from := 0
	for i := range a.Shadows {
		w := &a.Shadows[i]
		to := a.shadowed.endOfCheck(w.Check, from)
		w.first = from
		if w.Err = apply(from, to); w.Err != nil {
			a.shadowed.setFailed(from, to, w.Err)
		}
		if to = a.shadowed.foldBans(from, to); w.Err == nil {
			w.Decision = combineDecisions(a.shadowed.Decisions[from:to])
			w.DeniedBy = a.shadowed.firstDenial(from, to)
		}
		w.end, from = to, to
	}
}

// allowShadowed sets the answer for a request all of whose checks are in shadow mode.
func (a *Answer) allowShadowed() {
	for i := range a.shadowed.Decisions {
		forceAllow(&a.shadowed.Decisions[i])
	}
	a.combine(&a.shadowed)
	a.Unenforced = true
}
