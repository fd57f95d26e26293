package headgate

import (
	"context"
	"fmt"
	"time"
)

// HoldID identifies a hold among the holds of a key. It is the first 16 bytes of the
// SHA-256 of the id that the caller passed, or random if the caller passed none.
type HoldID [16]byte

// OnExpiry is what happens to the units of a hold that expires before it is committed.
type OnExpiry uint8

// The values of [OnExpiry].
const (
	// KeepExpired leaves the units spent: the work may have been done.
	KeepExpired OnExpiry = iota
	// ReleaseExpired has the effect that the hold was cancelled at its deadline.
	ReleaseExpired
)

// Over is what happens if a commit has more units than the hold.
type Over uint8

// The values of [Over].
const (
	// OweExcess charges the excess when the hold is committed, whether or not it is
	// available: the key may be overspent.
	OweExcess Over = iota
	// ClipExcess charges only as much of the excess as remains.
	ClipExcess
)

// ParseOnExpiry returns the value for “keep” or “release”. The empty text means keep.
func ParseOnExpiry(text string) (OnExpiry, error) {
	switch text {
	case "", "keep":
		return KeepExpired, nil
	case "release":
		return ReleaseExpired, nil
	}
	return 0, fmt.Errorf("%w: on_expiry is %.40q; must be keep or release", ErrInvalidPolicy, text)
}

// ParseOver returns the value for “owe” or “clip”. The empty text means owe.
func ParseOver(text string) (Over, error) {
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
	// OnExpiry is what happens to the units of a hold that expires. The zero value is
	// [KeepExpired].
	OnExpiry OnExpiry
	// Over is what happens if the actual cost is above the amount of the hold. The zero
	// value is [OweExcess].
	Over Over
	// MaxOpen is the maximum number of open holds of a key: 1 to 100,000; 0 means 1,000.
	MaxOpen int
	// CapAmount reduces the amount of a hold to the limit if it is above. Without it, a
	// hold with a larger amount is denied and can never be allowed.
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
	case s.Over > ClipExcess:
		return fmt.Errorf("%w: over is %d; must be owe or clip", ErrInvalidPolicy, s.Over)
	case s.MaxOpen < 0 || s.MaxOpen > MaxOpenHolds:
		return fmt.Errorf("%w: max_open is %d; must be 1 to %d (0 selects %d)", ErrInvalidPolicy, s.MaxOpen, MaxOpenHolds, DefaultMaxOpenHolds)
	}
	return nil
}

// Open returns the maximum number of open holds of a key.
func (s HoldSettings) Open() int {
	if s.MaxOpen == 0 {
		return DefaultMaxOpenHolds
	}
	return s.MaxOpen
}

// HoldVerb is the operation of [HoldStore.ApplyHolds].
type HoldVerb uint8

// The operations of [HoldStore.ApplyHolds].
const (
	// OpenHold takes the cost and opens a hold, for all ops or for none. If an op is
	// denied, the decisions report which. A hold with the same id and the same cost is
	// not opened again; its result is replayed.
	OpenHold HoldVerb = iota
	// CommitHold ends the hold with the actual cost.
	CommitHold
	// ExtendHold sets the deadline of the hold to now plus the TTL.
	ExtendHold
	// Debit spends the cost, whether or not it is available. It ignores the id.
	Debit
	// TakeUpTo spends the cost or as many units as remain under every op. It ignores the
	// id.
	TakeUpTo
)

// HoldOp is one operation in a call of [HoldStore.ApplyHolds].
type HoldOp struct {
	Op
	ID HoldID
	// Private is true if only this process knows the id, and repeats a commit only if
	// its reply was lost. A store that loses no replies then keeps no record of a hold
	// that has ended.
	Private bool
}

// HoldResult is the result of an operation on a hold.
type HoldResult struct {
	// The decision is that of a take for [OpenHold], and otherwise that of a peek with
	// cost 0 after the operation.
	Decision
	// Replayed is true if the operation had been executed before, so that this call
	// changed nothing.
	Replayed bool
	// Granted is the number of units that [TakeUpTo] took.
	Granted int64
	// Err is set by [HoldStore.ApplyHolds] only: [ErrUnknownHold] if the op found no
	// hold. The methods of [Hold] return it as their error.
	Err error
}

// HoldStore is a [Store] in which a charge can be corrected later. A store without holds
// does not implement it.
type HoldStore interface {
	Store

	// ApplyHolds executes verb on every op, atomically for each key, and writes a result
	// for each of them into results, which must have the length of ops. [OpenHold] is
	// executed for all ops or for none. ttl is used by OpenHold and [ExtendHold]. If two
	// ops have the same key and id, they are one hold with the sum of their costs.
	// ApplyHolds returns the instant of the operation. A bound rule whose algorithm
	// cannot hold returns [ErrUnsupported].
	ApplyHolds(ctx context.Context, now Instant, verb HoldVerb, ttl time.Duration, ops []HoldOp, results []HoldResult) (Instant, error)
}

// HoldBound is a [Bound] of a [HoldStore] with a faster way to execute an operation on
// one key. It is optional.
type HoldBound interface {
	Bound

	// ApplyHold is [HoldStore.ApplyHolds] with one op, whose Bound is this one. The error
	// includes that of the result.
	ApplyHold(ctx context.Context, now Instant, verb HoldVerb, ttl time.Duration, op *HoldOp) (HoldResult, Instant, error)
}
