// Package hooks gives other packages of this module access to functions of the root
// package that are not part of the public API. The root package sets these variables in
// an init function. Package root calls the functions with their types.
package hooks

// The functions of the root package. Their types cannot be used here, because the root
// package imports this package.
var (
	Combine  any // func([]headgate.Decision) headgate.Decision
	Tightest any // func([]headgate.Decision) int
	Rules    any // func(headgate.Policy) []headgate.Rule
	Bind     any // func(headgate.Store, headgate.Rule) (headgate.Bound, error)
	// func(context.Context, headgate.Store, headgate.Instant, []headgate.Op, bool,
	// []headgate.Decision) error
	ApplyAll any
	// func(context.Context, headgate.Store, headgate.Instant, headgate.HoldVerb,
	// time.Duration, []headgate.HoldOp, []headgate.HoldResult) (headgate.Instant, error)
	ApplyHolds any
	// func(context.Context, headgate.Store, headgate.Instant, time.Duration,
	// []headgate.HoldOp, []int, []headgate.HoldResult) (headgate.Instant, error)
	ExtendHolds any
	// func([]headgate.HoldResult, []HeldLimit[headgate.Rule], headgate.Instant,
	// headgate.Instant, headgate.StoreErrorReason) (int64, error)
	HoldError any
	CheckTTL  any // func(time.Duration) error
	// func(headgate.HoldVerb, headgate.Algorithm, headgate.Limit, int64) error
	CheckHoldCost any
	InstantNow    any // func(Instant) Instant
	Observe       any // func(context.Context, headgate.Observer, headgate.Event)
	// func(*headgate.Limiter, context.Context, string, int64, time.Duration)
	// (*headgate.Hold, error)
	WaitHold    any
	SettleHolds any // func(context.Context, []*headgate.Hold)
	TakeNow     any // func(context.Context, []headgate.Check) bool
)

// HeldLimit is a limit of a hold. R is headgate.Rule.
type HeldLimit[R any] struct {
	Rule R
	Key  string
	// Excess is the number of units by which the actual cost of a commit is above the
	// amount of the hold under this limit. It can be negative, and is 0 for another
	// operation.
	Excess int64
}
