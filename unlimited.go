package headgate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// limitKind distinguishes a limit that counts units from [Unlimited] and [Blocked].
type limitKind uint8

const (
	counting  limitKind = iota
	unlimited           // see Unlimited
	blocked             // see Blocked
)

// Unlimited returns a limit that allows every request of a key, with any cost. It must be
// the only limit of its policy. The store is not called, so nothing is counted: a key
// that gets a limit later is unused. Limit and Remaining of a decision are
// [MaxWindowUnits], and responses have no rate limit header fields. Its text is
// “unlimited”.
//
// [ParseLimit] does not accept that text, so a client that sends a limit cannot turn it
// off; [ParsePolicyLimit] does.
func Unlimited() Limit { return Limit{kind: unlimited} }

// Blocked returns a limit that denies every request of a key. It must be the only limit
// of its policy. Limit and Remaining of a decision are 0, and Never is true, because
// waiting does not help. A cost of 0 is allowed, as for every limit. The store is not
// called for a blocked key; what the key has spent before is kept until it expires. Its
// text is “0/s”.
func Blocked() Limit { return Limit{kind: blocked} }

// IsUnlimited reports whether l is [Unlimited].
func (l Limit) IsUnlimited() bool { return l.kind == unlimited }

// IsBlocked reports whether l is [Blocked].
func (l Limit) IsBlocked() bool { return l.kind == blocked }

// isUncounted reports whether l is [Unlimited] or [Blocked].
func (l Limit) isUncounted() bool { return l.kind != counting }

// The texts of [Unlimited] and [Blocked].
const (
	unlimitedText = "unlimited"
	blockedText   = "0/s"
)

func (k limitKind) text() string {
	if k == unlimited {
		return unlimitedText
	}
	return blockedText
}

// ParsePolicyLimit is like [ParseLimit] and also accepts “unlimited” for [Unlimited] and
// a rate of 0, such as “0/s”, for [Blocked]. Use it for limits that an operator writes,
// and ParseLimit for limits from a client.
func ParsePolicyLimit(text string) (Limit, error) {
	if strings.EqualFold(strings.Trim(text, " \t"), unlimitedText) {
		return Unlimited(), nil
	}
	s := scanner{text: text}
	if l, err := s.limit(); err == nil && l.Rate == 0 && l.Burst == 0 && l.Queue == 0 {
		return Blocked(), nil
	}
	return ParseLimit(text)
}

// errUncountedLimit is the error for [Unlimited] or [Blocked] where a limit must count
// units.
func (l Limit) errUncountedLimit() error {
	return &LimitError{"rate", l.String(), "must be 1 to 1000000000; unlimited and 0/s are accepted only as the limit of a policy"}
}

// validateLimit returns an error if the i-th limit of the policy is invalid.
func (p Policy) validateLimit(i int) error {
	l := p.Limits[i]
	if l.isUncounted() && len(p.Limits) == 1 {
		return nil
	}
	if l.isUncounted() {
		return fmt.Errorf("%w: limit %d of policy %q is %s, and the policy has %d limits; it must be the only one",
			ErrInvalidPolicy, i+1, p.Name, l, len(p.Limits))
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("limit %d of policy %q: %w", i+1, p.Name, err)
	}
	if p.Holds.OnExpiry == KeepExpired && p.Algorithm.For(l).OnlyHolds() {
		return fmt.Errorf("%w: on_expiry is keep, and limit %s releases its units when a hold expires; leave on_expiry out", ErrInvalidPolicy, l)
	}
	return nil
}

// bindRule binds a rule to the store, unless its limit does not count units.
func bindRule(store Store, rule Rule) (Bound, error) {
	if !rule.Limit.isUncounted() {
		return store.Bind(rule)
	}
	return &uncountedBound{blocked: rule.Limit.IsBlocked(), deniedBy: []string{rule.Name}}, nil
}

// uncountedBound is the Bound of a limit that does not count. It needs no store.
type uncountedBound struct {
	blocked  bool
	deniedBy []string
}

var _ HoldBound = (*uncountedBound)(nil)

// take returns the decision on a request of cost units.
func (c *uncountedBound) take(cost int64) Decision {
	switch {
	case !c.blocked:
		return Decision{Allowed: true, Limit: MaxWindowUnits, Remaining: MaxWindowUnits}
	case cost == 0:
		return Decision{Allowed: true}
	default:
		return Decision{Never: true, DeniedBy: c.deniedBy}
	}
}

// Apply implements [Bound].
func (c *uncountedBound) Apply(_ context.Context, _ Instant, _ string, verb Verb, cost int64) (Decision, error) {
	if verb == Refund || verb == Reset {
		cost = 0
	}
	return c.take(cost), nil
}

// Reserve implements [Bound]. It reserves immediately or never.
func (c *uncountedBound) Reserve(_ context.Context, _ Instant, _ string, cost int64, _ time.Duration) (Decision, ReservationToken, error) {
	return c.take(cost), ReservationToken{}, nil
}

// Cancel implements [Bound].
func (c *uncountedBound) Cancel(context.Context, Instant, string, int64, ReservationToken) (Decision, error) {
	return c.take(0), nil
}

// Spacing implements [Bound].
func (c *uncountedBound) Spacing(int64) time.Duration { return 0 }

// CanReserve implements [Bound].
func (c *uncountedBound) CanReserve() bool { return true }

// Limit implements [Bound].
func (c *uncountedBound) Limit() int64 { return c.take(0).Limit }

// ApplyHold implements [HoldBound].
func (c *uncountedBound) ApplyHold(_ context.Context, now Instant, verb HoldVerb, _ time.Duration, op HoldOp) (HoldResult, Instant, error) {
	return c.hold(verb, op.Cost), instantNow(now), nil
}

// hold returns the result of an operation on a hold. A commit of a hold that was opened
// under an earlier limit has no effect.
func (c *uncountedBound) hold(verb HoldVerb, cost int64) HoldResult {
	switch {
	case verb == OpenHold:
		return HoldResult{Decision: c.take(cost)}
	case verb == TakeUpTo && !c.blocked:
		return HoldResult{Decision: c.take(0), Granted: cost}
	default:
		return HoldResult{Decision: c.take(0)}
	}
}

// instantNow returns now, or the time of this process for [StoreClock].
func instantNow(now Instant) Instant {
	if now == StoreClock {
		return InstantOf(time.Now())
	}
	return now
}

func isUncountedBound(b Bound) bool {
	_, ok := b.(*uncountedBound)
	return ok
}

// splitUncounted calls apply for each op whose limit does not count. It returns the other
// ops with their indexes.
func splitUncounted[T any](
	ops []T, boundOf func(T) Bound, apply func(i int, c *uncountedBound),
) (counted []T, indexes []int) {
	for i, op := range ops {
		if c, ok := boundOf(op).(*uncountedBound); ok {
			apply(i, c)
			continue
		}
		counted, indexes = append(counted, op), append(indexes, i)
	}
	return counted, indexes
}

// copyTo copies the results of the ops that splitUncounted returned to their indexes.
func copyTo[T any](all, results []T, indexes []int) {
	for i, r := range results {
		all[indexes[i]] = r
	}
}

// applyOps is [Store.ApplyAll] for ops that may have limits that do not count. If one of
// them denies, the store only peeks.
func applyOps(ctx context.Context, store Store, now Instant, ops []Op, peek bool, decisions []Decision) error {
	if !slices.ContainsFunc(ops, func(op Op) bool { return isUncountedBound(op.Bound) }) {
		return store.ApplyAll(ctx, now, ops, peek, decisions)
	}
	counted, indexes := splitUncounted(ops, func(op Op) Bound { return op.Bound }, func(i int, c *uncountedBound) {
		decisions[i] = c.take(ops[i].Cost)
		peek = peek || !decisions[i].Allowed
	})
	if len(counted) == 0 {
		return nil
	}
	decided := make([]Decision, len(counted))
	if err := store.ApplyAll(ctx, now, counted, peek, decided); err != nil {
		return err
	}
	copyTo(decisions, decided, indexes)
	return nil
}

// applyHoldOps is [HoldStore.ApplyHolds] for ops that may have limits that do not count.
// If one of them denies a hold, the store only peeks. The results of these limits have no
// error, because they keep no record of a hold.
func applyHoldOps(
	ctx context.Context, store Store, now Instant, verb HoldVerb, ttl time.Duration, ops []HoldOp, results []HoldResult,
) (at Instant, err error) {
	if !slices.ContainsFunc(ops, func(op HoldOp) bool { return isUncountedBound(op.Bound) }) {
		return applyCountedHolds(ctx, store, now, verb, ttl, ops, results)
	}
	granted, denied := int64(MaxWindowUnits), false
	counted, indexes := splitUncounted(ops, func(op HoldOp) Bound { return op.Bound }, func(i int, c *uncountedBound) {
		results[i] = c.hold(verb, ops[i].Cost)
		granted, denied = min(granted, results[i].Granted), denied || !results[i].Allowed
	})
	if at = instantNow(now); denied {
		return at, peekHolds(ctx, store, now, ops, results)
	}
	if verb == TakeUpTo {
		limitCosts(counted, granted)
	}
	held := make([]HoldResult, len(counted))
	if len(counted) > 0 {
		if at, err = applyCountedHolds(ctx, store, now, verb, ttl, counted, held); err != nil {
			return at, err
		}
	}
	copyTo(results, held, indexes)
	if verb == TakeUpTo {
		grantEqually(results)
	}
	return at, nil
}

// limitCosts reduces the costs that are above maxCost.
func limitCosts(ops []HoldOp, maxCost int64) {
	for i := range ops {
		ops[i].Cost = min(ops[i].Cost, maxCost)
	}
}

// grantEqually sets Granted of all results to the least of them, because all ops of
// [TakeUpTo] take the same number of units.
func grantEqually(results []HoldResult) {
	granted := results[0].Granted
	for i := range results {
		granted = min(granted, results[i].Granted)
	}
	for i := range results {
		results[i].Granted = granted
	}
}

// applyCountedHolds is applyHoldOps for ops whose limits all count.
func applyCountedHolds(
	ctx context.Context, store Store, now Instant, verb HoldVerb, ttl time.Duration, ops []HoldOp, results []HoldResult,
) (Instant, error) {
	s, ok := store.(HoldStore)
	if !ok {
		return 0, fmt.Errorf("%w: the store does not support %s", ErrUnsupported, verb.methodName())
	}
	return s.ApplyHolds(ctx, now, verb, ttl, ops, results)
}

// peekHolds sets the results of ops to decisions that spend nothing.
func peekHolds(ctx context.Context, store Store, now Instant, ops []HoldOp, results []HoldResult) error {
	plain, decisions := make([]Op, len(ops)), make([]Decision, len(ops))
	for i, op := range ops {
		plain[i] = op.Op
	}
	err := applyOps(ctx, store, now, plain, true, decisions)
	for i, d := range decisions {
		results[i] = HoldResult{Decision: d}
	}
	return err
}
