package headgate

import (
	"context"
	"math"
	"time"
)

// Instant is a time in whole microseconds since the Unix epoch. Accepted are 0 to [MaxInstant], and [StoreClock].
type Instant int64

// StoreClock stands for the instant at which the store decides, read from the store's own clock. It is what every verb uses
// that is not given an instant: callers' clocks differ, the store has one.
const StoreClock Instant = math.MinInt64

// InstantOf returns t in whole microseconds, rounded down. Times that a store does not accept
// give an instant that is not valid.
func InstantOf(t time.Time) Instant {
	const latest = int64(MaxInstant) / 1e6
	if s := t.Unix(); s < 0 || s > latest { // UnixMicro overflows for times far away
		return -1
	}
	return Instant(t.UnixMicro())
}

// Time returns the instant as a time in UTC. t must be valid and not [StoreClock].
func (t Instant) Time() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Valid reports whether the instant is one that a store accepts.
func (t Instant) Valid() bool { return t >= 0 && t <= MaxInstant || t == StoreClock }

// Rule is one limit as a store keeps it.
type Rule struct {
	// Scope and the algorithm say, together with a key, whose state it is: rules with the same scope and algorithm share it.
	Scope string
	// Name is what a [Decision] calls the rule in DeniedBy.
	Name string
	// Limit is the limit; it must be valid.
	Limit Limit
	// Algorithm is the arithmetic; the zero value means [TokenBucket].
	Algorithm Algorithm
	// OnStoreError is what holds while the store cannot decide; the zero value means [FailClosed].
	OnStoreError OnStoreError
}

// Store keeps the state of keys and applies an algorithm's step to it atomically. It knows nothing of what the step means.
// All methods may be called concurrently. Implementations are judged by package storetest.
type Store interface {
	// Bind makes a rule ready for use. It refuses an algorithm that is unknown ([ErrUnknownAlgorithm]) or that this store cannot
	// hold ([ErrUnsupported]), and a limit outside the domain ([ErrInvalidLimit]). A store that can be away, and has nothing to
	// decide in its place, refuses an OnStoreError other than closed ([ErrUnsupported]). It does no I/O and needs no release.
	Bind(rule Rule) (Bound, error)

	// ApplyAll takes from every op, or from none: if one is denied nothing changes. It writes one decision for each op into
	// decisions, which has the length of ops. When one key is charged twice both charges count. Each Bound must come from this
	// store. With peek set it only says what would be decided.
	ApplyAll(ctx context.Context, now Instant, ops []Op, peek bool, decisions []Decision) error

	// Close releases what the store holds and waits for its goroutines. Every later call answers [ErrClosed].
	Close() error
}

// Shared reports whether other processes may use the state that store keeps. A store whose state is its own process' alone has a
// method Shared() bool that returns false, and a store around another returns what the inner one does; a store without the method
// is shared. It does no I/O.
func Shared(store Store) bool {
	s, ok := store.(interface{ Shared() bool })
	return !ok || s.Shared()
}

// Op is one charge in a [Store.ApplyAll].
type Op struct {
	Bound Bound
	Key   string // at most what the store accepts; not retained
	Cost  int64  // units, at least 0
}

// Verb is what [Bound.Apply] does with a key.
type Verb uint8

// The verbs of [Bound.Apply].
const (
	Take   Verb = iota // spend the cost if it is admitted
	Peek               // say what Take would decide, and change nothing
	Refund             // give the cost back; the decision is that of a peek with cost 0 after it
	Reset              // make the key as if never used; the decision is that of a peek with cost 0 after it
)

// String is the verb in lower case.
func (v Verb) String() string {
	if names := [...]string{"take", "peek", "refund", "reset"}; int(v) < len(names) {
		return names[v]
	}
	return "unknown"
}

// Bound is a rule made ready by a store. Each method is one atomic operation on one key, at now or, for [StoreClock], at the
// store's own time. The caller has checked that the cost is at least 0 and the instant valid. Keys are not retained.
type Bound interface {
	// Apply does verb with cost.
	Apply(ctx context.Context, now Instant, key string, verb Verb, cost int64) (Decision, error)

	// Reserve takes cost even when it is still to come, if it comes within maxDelay. The decision's Delay is then the wait until
	// it is there; a refusal changes nothing and says RetryAfter as for a take. The mark serves Cancel. Algorithms without
	// bookings answer [ErrUnsupported].
	Reserve(ctx context.Context, now Instant, key string, cost int64, maxDelay time.Duration) (Decision, ReservationToken, error)

	// Cancel gives back what a Reserve took, if nothing was booked behind it since and it is not yet due: the instants of later
	// bookings were promised, so giving back would grant the same time twice.
	Cancel(ctx context.Context, now Instant, key string, cost int64, mark ReservationToken) (Decision, error)

	// Spacing is a lower bound of the time that this rule needs to grant cost more units to callers who had to wait. No I/O.
	Spacing(cost int64) time.Duration

	// Books reports whether Reserve and Cancel work.
	CanReserve() bool

	// Limit is the most that can be spent at once, in units: what [Decision.Limit] says. No I/O.
	Limit() int64
}

// Mark is a key's state just after a reservation, for the store that made it.
type ReservationToken [3]int64
