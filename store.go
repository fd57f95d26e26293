package headgate

import (
	"context"
	"math"
	"time"
)

// Instant is a time in whole microseconds since the Unix epoch: 0 to [MaxInstant], or
// [StoreClock].
type Instant int64

// StoreClock means the time of the store's own clock when it decides. Methods without a
// time use it, because the clocks of callers differ and the store has one clock.
const StoreClock Instant = math.MinInt64

// InstantOf returns t in whole microseconds, rounded down. Times that a store does not
// accept give an instant that is not valid.
func InstantOf(t time.Time) Instant {
	const latest = int64(MaxInstant) / 1e6
	if s := t.Unix(); s < 0 || s > latest { // UnixMicro overflows for distant times
		return -1
	}
	return Instant(t.UnixMicro())
}

// Time returns the instant as a time in UTC. t must be valid and not [StoreClock].
func (t Instant) Time() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Valid reports whether stores accept the instant.
func (t Instant) Valid() bool { return t >= 0 && t <= MaxInstant || t == StoreClock }

// Rule is one limit in the form that a store binds.
type Rule struct {
	// Scope identifies the state together with the algorithm and the key. Rules with
	// the same scope and algorithm share state.
	Scope string
	// Name is the rule's name in [Decision.DeniedBy].
	Name string
	// Limit is the limit. It must be valid.
	Limit Limit
	// Algorithm is the arithmetic. The zero value means [TokenBucket].
	Algorithm Algorithm
	// OnStoreError is the failure mode. The zero value means [FailClosed].
	OnStoreError OnStoreError
}

// Store keeps the state of keys and applies an algorithm's step to it atomically. It
// does not interpret the step. All methods may be called concurrently. Package
// storetest tests implementations.
type Store interface {
	// Bind prepares a rule for use. It returns [ErrUnknownAlgorithm] for an unknown
	// algorithm, [ErrUnsupported] for an algorithm that the store does not support, and
	// [ErrInvalidLimit] for a limit outside the domain or with a field that the
	// algorithm does not use. A store that can become unavailable and has no fallback
	// returns [ErrUnsupported] for an OnStoreError other than closed. Bind does no I/O,
	// and a Bound needs no release.
	Bind(rule Rule) (Bound, error)

	// ApplyAll takes the cost of every op, or of none: if one is denied, nothing
	// changes. It writes one decision for each op into decisions, which has the length
	// of ops. A key that occurs twice is charged twice. Each Bound must come from this
	// store. If peek is set, ApplyAll only reports what it would decide.
	ApplyAll(ctx context.Context, now Instant, ops []Op, peek bool, decisions []Decision) error

	// Close releases the store's resources and waits for its goroutines. Every later
	// call returns [ErrClosed].
	Close() error
}

// Shared reports whether other processes may use the state of store. A store that keeps
// its state in this process has a method Shared() bool that returns false. A store that
// wraps another one returns the inner store's result. A store without the method is
// shared. Shared does no I/O.
func Shared(store Store) bool {
	s, ok := store.(interface{ Shared() bool })
	return !ok || s.Shared()
}

// Op is one charge in a [Store.ApplyAll].
type Op struct {
	Bound Bound
	Key   string // at most as long as the store accepts; not retained
	Cost  int64  // units, at least 0
}

// Verb is the operation of [Bound.Apply] on a key.
type Verb uint8

// The operations of [Bound.Apply].
const (
	// Take spends the cost if it is allowed.
	Take Verb = iota
	// Peek reports what Take would decide, and changes nothing.
	Peek
	// Refund refunds the cost. The decision is that of a peek with cost 0 after the
	// refund.
	Refund
	// Reset makes the key unused. The decision is that of a peek with cost 0 after the
	// reset.
	Reset
)

// String returns the verb in lower case.
func (v Verb) String() string {
	if names := [...]string{"take", "peek", "refund", "reset"}; int(v) < len(names) {
		return names[v]
	}
	return "unknown"
}

// Bound is a rule that a store has prepared. Each method with a context is one atomic
// operation on one key, at now or, for [StoreClock], at the time of the store's clock.
// The caller has checked that the cost is at least 0 and that the instant is valid.
// Keys are not retained.
type Bound interface {
	// Apply executes verb with cost.
	Apply(ctx context.Context, now Instant, key string, verb Verb, cost int64) (Decision, error)

	// Reserve takes cost units that are available now or within maxDelay. The
	// decision's Delay is the wait until they are available. A denial changes nothing
	// and sets RetryAfter as a take does. The token is the argument of Cancel. An
	// algorithm that cannot reserve returns [ErrUnsupported].
	Reserve(
		ctx context.Context, now Instant, key string, cost int64, maxDelay time.Duration,
	) (Decision, ReservationToken, error)

	// Cancel refunds what a Reserve took, unless a later reservation exists or the
	// units are already due. The times of later reservations were promised, so a refund
	// would grant the same time twice.
	Cancel(ctx context.Context, now Instant, key string, cost int64, token ReservationToken) (Decision, error)

	// Spacing returns a lower bound of the time that this rule needs to grant cost more
	// units to callers that wait. It does no I/O.
	Spacing(cost int64) time.Duration

	// CanReserve reports whether Reserve and Cancel work.
	CanReserve() bool

	// Limit returns the most units that can be spent simultaneously, as in
	// [Decision.Limit]. It does no I/O.
	Limit() int64
}

// ReservationToken is the state of a key just after a reservation. Only the store that
// made it uses it.
type ReservationToken [3]int64
