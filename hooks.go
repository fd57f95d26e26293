package headgate

import "github.com/headgate/headgate/internal/hooks"

func init() {
	hooks.Combine = combine
	hooks.Tightest = tightestOf
	hooks.Rules = Policy.rules
	hooks.Bind = bindRule
	hooks.ApplyAll = applyOps
	hooks.ApplyHolds = applyHoldOps
	hooks.ExtendHolds = extendOps
	hooks.HoldError = sumAndHoldError
	hooks.CheckTTL = checkTTL
	hooks.CheckHoldCost = checkHoldCost
	hooks.InstantNow = instantNow
	hooks.WaitHold = (*Limiter).waitHold
	hooks.SettleHolds = settle
	hooks.TakeNow = takeNow
	hooks.Observe = observe
}
