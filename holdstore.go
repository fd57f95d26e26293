package headgate

import (
	"context"
	"fmt"
	"time"
)

// OnExpiry selects whether the units of an expired hold stay spent.
type OnExpiry uint8

// The values of [OnExpiry].
const (
	// DefaultExpiry means ReleaseExpired under [Concurrency], and KeepExpired under all
	// other algorithms.
	DefaultExpiry OnExpiry = iota
	// KeepExpired leaves the units spent: the work may have been done. A policy with a
	// limit of concurrent units does not accept it.
	KeepExpired
	// ReleaseExpired cancels the hold as of its deadline.
	ReleaseExpired
)

// ExcessPolicy selects how a commit charges the units above the amount of the hold.
type ExcessPolicy uint8

// The values of [ExcessPolicy].
const (
	// OweExcess charges the excess when the hold is committed, whether or not it is
	// available: the key may be overspent.
	OweExcess ExcessPolicy = iota
	// ClipExcess charges only as much of the excess as remains.
	ClipExcess
)

// ParseOnExpiry returns the value for “keep” or “release”. The empty text means
// [DefaultExpiry].
func ParseOnExpiry(text string) (OnExpiry, error) {
	switch text {
	case "":
		return DefaultExpiry, nil
	case "keep":
		return KeepExpired, nil
	case "release":
		return ReleaseExpired, nil
	}
	return 0, fmt.Errorf("%w: on_expiry is %.40q; must be keep or release", ErrInvalidPolicy, text)
}

// ParseExcessPolicy returns the value for “owe” or “clip”. The empty text means owe.
func ParseExcessPolicy(text string) (ExcessPolicy, error) {
	switch text {
	case "", "owe":
		return OweExcess, nil
	case "clip":
		return ClipExcess, nil
	}
	return 0, fmt.Errorf("%w: over is %.40q; must be owe or clip", ErrInvalidPolicy, text)
}

// HoldSettings are the settings of a policy for holds. The zero value selects all
// defaults.
type HoldSettings struct {
	// OnExpiry selects whether the units of an expired hold stay spent. The zero value is
	// [DefaultExpiry].
	OnExpiry OnExpiry
	// ExcessPolicy selects how a commit charges the units above the amount of the hold.
	// The zero value is [OweExcess].
	ExcessPolicy ExcessPolicy
	// MaxOpen is the maximum number of open holds of a key: 1 to 100,000; 0 means 1,000.
	// A key also keeps the records of at most MaxOpen holds that have ended before their
	// deadlines, those with the latest deadlines.
	MaxOpen int
	// CapAmount reduces an amount above the capacity of the limit to the capacity.
	// Without it, a hold with a larger amount is denied and can never be allowed.
	CapAmount bool
}

// The default and the maximum of [HoldSettings.MaxOpen].
const (
	DefaultMaxOpenHolds = 1_000
	MaxOpenHolds        = 100_000
)

// Validate returns an error that matches [ErrInvalidPolicy] if a setting is outside the
// accepted range.
func (s HoldSettings) Validate() error {
	switch {
	case s.OnExpiry > ReleaseExpired:
		return fmt.Errorf("%w: on_expiry is %d; must be keep or release", ErrInvalidPolicy, s.OnExpiry)
	case s.ExcessPolicy > ClipExcess:
		return fmt.Errorf("%w: over is %d; must be owe or clip", ErrInvalidPolicy, s.ExcessPolicy)
	case s.MaxOpen < 0 || s.MaxOpen > MaxOpenHolds:
		return fmt.Errorf("%w: max_open is %d; must be 1 to %d (0 selects %d)", ErrInvalidPolicy, s.MaxOpen, MaxOpenHolds, DefaultMaxOpenHolds)
	}
	return nil
}

// MaxOpenOrDefault returns MaxOpen, or [DefaultMaxOpenHolds] if MaxOpen is 0.
func (s HoldSettings) MaxOpenOrDefault() int {
	if s.MaxOpen == 0 {
		return DefaultMaxOpenHolds
	}
	return s.MaxOpen
}

// ChargedUnits returns the number of units that a hold of n units charges under a limit
// with the given capacity.
func (s HoldSettings) ChargedUnits(n, capacity int64) int64 {
	if s.CapAmount {
		return min(n, capacity)
	}
	return n
}

// WithDefaults returns s, in which [DefaultExpiry] is replaced by the default of the
// algorithm a. Stores call it in Bind.
func (s HoldSettings) WithDefaults(a Algorithm) HoldSettings {
	if s.OnExpiry == DefaultExpiry {
		if s.OnExpiry = KeepExpired; a.OnlyHolds() {
			s.OnExpiry = ReleaseExpired
		}
	}
	return s
}

// HoldVerb selects the operation that [HoldStore.ApplyHolds] executes.
type HoldVerb uint8

// The operations of [HoldStore.ApplyHolds].
const (
	// OpenHold takes the cost and opens a hold, for all ops or for none. If an op is
	// denied, the decisions report which. If the same request was executed before, it is
	// not executed again, and the results have Replayed set. If one of the keys has a
	// hold with the same id that a request with other keys or costs opened, the error is
	// [ErrHoldConflict].
	OpenHold HoldVerb = iota
	// CommitHold ends the hold with the actual cost.
	CommitHold
	// ExtendHold sets the deadline of the hold to now plus the TTL.
	ExtendHold
	// Debit spends the cost, whether or not it is available. It ignores the id.
	Debit
	// TakeUpTo spends the largest number of units, up to the cost, that all ops can
	// spend. It ignores the id.
	TakeUpTo
)

// String returns hold, commit, extend, debit or take_up_to.
func (v HoldVerb) String() string {
	names := [...]string{OpenHold: "hold", CommitHold: "commit", ExtendHold: "extend", Debit: "debit", TakeUpTo: "take_up_to"}
	if int(v) < len(names) {
		return names[v]
	}
	return "unknown"
}

// HoldOp is one operation in a call of [HoldStore.ApplyHolds].
type HoldOp struct {
	Op
	ID HoldID
	// Private is true if the id was generated by this process and is unknown to others.
	// A commit is then repeated only if its reply was lost. So a store that loses no
	// replies keeps no record of a private hold that has ended.
	Private bool
}

// HoldResult is the result of an operation on a hold.
type HoldResult struct {
	// Decision is the result of the take for [OpenHold], and of a peek with cost 0 after
	// all other operations.
	Decision
	// Replayed is true if the operation had been executed before, so that this call
	// changed nothing.
	Replayed bool
	// Granted is the number of units that [TakeUpTo] took.
	Granted int64
	// Uncounted is the number of units above the amount of a hold that a commit has not
	// counted under a limit, because a failure mode decided for it: the largest number of
	// all limits. If [Hold.Decision] is not degraded, repeat the commit when the store
	// has recovered. Otherwise charge the units with [Limiter.Debit], if they must count.
	Uncounted int64
	// Deadline is the instant at which the hold expires, after [OpenHold] and
	// [ExtendHold]. If Replayed is set, it is the deadline of the hold that was opened
	// before. It is 0 if the store keeps no hold: after a denial or an error, under
	// [Unlimited] or [Blocked], or if a failure mode allowed the request.
	Deadline Instant
	// Err is nil in the results of the methods of [Hold] and [Limiter], which return
	// their error. [HoldStore.ApplyHolds] and [ExtendAll] set it to [ErrUnknownHold] or
	// [ErrExpiredHold] if the hold is not open, and ExtendAll also to the error of the
	// store.
	Err error
}

// HoldStore is a [Store] in which a charge can be corrected later. A store that does
// not support holds does not implement it.
type HoldStore interface {
	Store

	// ApplyHolds executes verb on every op, atomically for each key, and writes a result
	// for each of them into results, which must have the length of ops. [OpenHold] is
	// executed for all ops or for none. ttl is used by OpenHold and [ExtendHold]. If two
	// ops have the same key and id, they are one hold with the sum of their costs.
	// ApplyHolds returns the instant of the operation. It returns [ErrUnsupported] if the
	// algorithm of a bound rule does not support holds, and [ErrInvalidHold] if two ops
	// charge the same key under different limits.
	ApplyHolds(ctx context.Context, now Instant, verb HoldVerb, ttl time.Duration, ops []HoldOp, results []HoldResult) (Instant, error)
}

// HoldBound is a [Bound] of a [HoldStore] with a faster way to execute an operation on
// one key. It is optional.
type HoldBound interface {
	Bound

	// ApplyHold is [HoldStore.ApplyHolds] with one op, whose Bound is this one. It
	// returns the Err of the result as its error.
	ApplyHold(ctx context.Context, now Instant, verb HoldVerb, ttl time.Duration, op HoldOp) (HoldResult, Instant, error)
}
