// Package root calls functions of the root package that are not part of its public API.
package root

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/hooks"
)

var (
	combine  = hooks.Combine.(func([]headgate.Decision) headgate.Decision)
	tightest = hooks.Tightest.(func([]headgate.Decision) int)
	rules    = hooks.Rules.(func(headgate.Policy) []headgate.Rule)
	bind     = hooks.Bind.(func(headgate.Store, headgate.Rule) (headgate.Bound, error))
	applyAll = hooks.ApplyAll.(func(context.Context, headgate.Store, headgate.Instant, []headgate.Op, bool, []headgate.Decision) error)

	applyHolds = hooks.ApplyHolds.(func(
		context.Context, headgate.Store, headgate.Instant, headgate.HoldVerb, time.Duration, []headgate.HoldOp, []headgate.HoldResult,
	) (headgate.Instant, error))
	extendHolds = hooks.ExtendHolds.(func(
		context.Context, headgate.Store, headgate.Instant, time.Duration, []headgate.HoldOp, []int, []headgate.HoldResult,
	) (headgate.Instant, error))
	holdError = hooks.HoldError.(func(
		[]headgate.HoldResult, []HeldLimit, headgate.Instant, headgate.Instant, headgate.StoreErrorReason,
	) (int64, error))
	checkTTL = hooks.CheckTTL.(func(time.Duration) error)

	checkHoldCost = hooks.CheckHoldCost.(func(headgate.HoldVerb, headgate.Algorithm, *headgate.Limit, int64) error)

	instantNow = hooks.InstantNow.(func(headgate.Instant) headgate.Instant)
	observe    = hooks.Observe.(func(context.Context, headgate.Observer, headgate.Event))

	waitHold = hooks.WaitHold.(func(
		*headgate.Limiter, context.Context, string, int64, time.Duration,
	) (*headgate.Hold, error))
	settleHolds = hooks.SettleHolds.(func(context.Context, []*headgate.Hold))
	takeNow     = hooks.TakeNow.(func(context.Context, []headgate.Check) bool)
)

// Combine merges the decisions of several limits on one request into one decision; see
// [headgate.AllowAll]. There must be at least one decision.
func Combine(ds []headgate.Decision) headgate.Decision { return combine(ds) }

// Tightest returns the index of the decision with the fewest remaining units, the first
// of them if several are equal. It returns 0 if ds is empty.
func Tightest(ds []headgate.Decision) int { return tightest(ds) }

// Rules returns the rules for binding a policy to a store, one for each limit. Their
// state is the same as that of a [headgate.Limiter] with this policy. The policy must
// be valid.
func Rules(p headgate.Policy) []headgate.Rule { return rules(p) }

// Bind binds a rule to the store. Unlike [headgate.Store.Bind], it accepts
// [headgate.Unlimited] and [headgate.Blocked], which need no store.
func Bind(store headgate.Store, rule headgate.Rule) (headgate.Bound, error) { return bind(store, rule) }

// ApplyAll is [headgate.Store.ApplyAll] for operations whose bounds [Bind] returned.
func ApplyAll(
	ctx context.Context, store headgate.Store, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision,
) error {
	return applyAll(ctx, store, now, ops, peek, decisions)
}

// ApplyHolds is [headgate.HoldStore.ApplyHolds] for operations whose bounds [Bind]
// returned. It returns an error if the store does not support holds.
func ApplyHolds(
	ctx context.Context, store headgate.Store, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp,
	results []headgate.HoldResult,
) (headgate.Instant, error) {
	return applyHolds(ctx, store, now, verb, ttl, ops, results)
}

// ExtendHolds is ApplyHolds with [headgate.ExtendHold] for many holds, with one call of
// the store for at most 256 ops of a server, or for one hold with more. sizes has the
// number of ops of each hold, in the order of ops. If a call fails, the results of its
// ops have the error, and the other calls are made. ExtendHolds returns the instant of
// the last call that has succeeded, and the first error.
func ExtendHolds(
	ctx context.Context, store headgate.Store, now headgate.Instant, ttl time.Duration, ops []headgate.HoldOp, sizes []int,
	results []headgate.HoldResult,
) (headgate.Instant, error) {
	return extendHolds(ctx, store, now, ttl, ops, sizes, results)
}

// HeldLimit is a limit of a hold.
type HeldLimit = hooks.HeldLimit[headgate.Rule]

// HoldError returns the error of an operation on a hold, from the results of its limits:
// nil, or an error that matches [headgate.ErrExpiredHold] or [headgate.ErrUnknownHold].
// limits has the limit of each result; HoldError changes Excess of limits with the same
// state. at is the instant of the operation, expires the deadline of the hold, and
// degraded the reason why a failure mode opened it. uncounted is
// [headgate.HoldResult].Uncounted. If no result has an error or is degraded, HoldError
// returns 0 and nil.
func HoldError(
	results []headgate.HoldResult, limits []HeldLimit, at, expires headgate.Instant, degraded headgate.StoreErrorReason,
) (uncounted int64, err error) {
	return holdError(results, limits, at, expires, degraded)
}

// CheckTTL returns an error that matches [headgate.ErrInvalidHold] if the TTL of a hold
// is outside the accepted range.
func CheckTTL(ttl time.Duration) error { return checkTTL(ttl) }

// CheckHoldCost returns an error that matches [headgate.ErrInvalidCost] if the cost of an
// operation on holds is above the maximum under the algorithm and the limit.
func CheckHoldCost(verb headgate.HoldVerb, a headgate.Algorithm, l *headgate.Limit, cost int64) error {
	return checkHoldCost(verb, a, l, cost)
}

// Observe passes an event to an observer, with the context if the observer is a
// [headgate.ContextObserver].
func Observe(ctx context.Context, o headgate.Observer, e headgate.Event) { observe(ctx, o, e) }

// InstantNow returns now, or the time of this process for [headgate.StoreClock]. It is
// the instant of an operation that no store executes.
func InstantNow(now headgate.Instant) headgate.Instant { return instantNow(now) }

// WaitHold is like [headgate.Limiter.WaitN], and opens a hold that expires after ttl. The
// limiter must not have a queue. The hold is nil if the units were spent without one,
// because the key has too many open holds, or there is no memory for another one.
func WaitHold(ctx context.Context, l *headgate.Limiter, key string, cost int64, ttl time.Duration) (*headgate.Hold, error) {
	return waitHold(l, ctx, key, cost, ttl)
}

// SettleHolds ends holds of one store with the amounts that they have charged, without an
// event for the observer. It makes one store operation.
func SettleHolds(ctx context.Context, holds []*headgate.Hold) { settleHolds(ctx, holds) }

// TakeNow takes the costs of all checks, or of none, and reports whether it has taken
// them. It takes nothing if a caller of [headgate.Limiter.WaitN] waits for one of the
// keys, or if an algorithm has a queue or requires a hold.
func TakeNow(ctx context.Context, checks []headgate.Check) bool { return takeNow(ctx, checks) }
