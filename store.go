package headgate

import (
	"context"
	"math"
	"time"
)

// Instant is a time in whole microseconds since the Unix epoch: 0 to [MaxInstant], or
// [StoreClock].
type Instant int64

// StoreClock means the current time of the store's own clock. The methods without
// a time parameter use it, because the clocks of callers differ but a store has only
// one clock.
const StoreClock Instant = math.MinInt64

// InstantOf returns t in whole microseconds, rounded down. For a time outside the
// accepted range, it returns an instant that is not valid.
func InstantOf(t time.Time) Instant {
	switch s := t.Unix(); { // UnixMicro overflows for distant times
	case s < -1<<43:
		return StoreClock + 1
	case s > 1<<43:
		return math.MaxInt64
	}
	return Instant(t.UnixMicro())
}

// Time returns t as a [time.Time] in UTC. t must be valid and not [StoreClock].
func (t Instant) Time() time.Time { return time.UnixMicro(int64(t)).UTC() }

// Valid reports whether t is [StoreClock] or in the range that stores accept.
func (t Instant) Valid() bool { return t >= 0 && t <= MaxInstant || t == StoreClock }

// Rule is one limit of a policy, in the form that is passed to [Store.Bind].
type Rule struct {
	// Scope, Algorithm and a key together identify a state. Rules with the same scope
	// and algorithm share the state of a key.
	Scope string
	// Name is the rule's name in [Decision.DeniedBy].
	Name string
	// Limit is the limit. It must be valid.
	Limit Limit
	// Algorithm is the algorithm of the limit. The zero value means [TokenBucket].
	Algorithm Algorithm
	// OnStoreError is the failure mode of the limit. The zero value means [FailClosed].
	OnStoreError OnStoreError
	// Holds are the settings for holds; see [HoldSettings.WithDefaults].
	Holds HoldSettings
	// Lease are the settings for leases.
	Lease LeaseSettings
}

// Store keeps the state of keys and atomically applies the operations of an algorithm
// to it. The content of the state is defined by the algorithm alone. All methods may be
// called concurrently. Package storetest tests implementations.
type Store interface {
	// Bind prepares a rule for use. It returns [ErrUnknownAlgorithm] for an unknown
	// algorithm, [ErrUnsupported] for an algorithm that the store does not support, and
	// [ErrInvalidLimit] for a limit that is outside the accepted range or has a field
	// that the algorithm does not use. A store that can become unavailable and has no
	// fallback returns [ErrUnsupported] for any OnStoreError but closed. A store that is
	// reached over a network returns [ErrUnsupported] for a leased rule: wrap it with
	// package lease. Bind does no I/O, and a Bound needs no release.
	Bind(rule Rule) (Bound, error)

	// ApplyAll spends the cost of every op, or of none: if any op is denied, nothing
	// changes. It writes one decision for each op into decisions, which must have the
	// length of ops. If two ops have the same key, both are charged. Each Bound must
	// come from this store. If peek is true, ApplyAll changes nothing and only reports
	// what it would decide.
	ApplyAll(ctx context.Context, now Instant, ops []Op, peek bool, decisions []Decision) error

	// Close releases the store's resources and waits for its goroutines. Every later
	// call returns [ErrClosed].
	Close() error
}

// Shared reports whether other processes may use the state in store. It calls the
// method Shared() bool of the store: a store that keeps its state in this process
// returns false, and a store that wraps another one returns the result for the inner
// store. For a store without this method, the result is true. Shared does no I/O.
func Shared(store Store) bool {
	s, ok := store.(interface{ Shared() bool })
	return !ok || s.Shared()
}

// NodeOf returns the name of the server that currently stores the state of key under b.
// It calls the method Node(key string) string of b: a store with several servers that
// fail independently returns the name of one of them, for example its address. For a
// Bound without this method, the result is "". Package fallback keeps one circuit breaker
// for each name, so a store must have few names, and none may contain a key or a
// password. NodeOf does no I/O.
func NodeOf(b Bound, key string) string {
	if n, ok := b.(interface{ Node(key string) string }); ok {
		return n.Node(key)
	}
	return ""
}

// Op is one charge in a call of [Store.ApplyAll].
type Op struct {
	Bound Bound
	Key   string // key to charge; the store limits the length and does not retain the string
	Cost  int64  // cost in units, at least 0
}

// Verb is the operation of [Bound.Apply] on a key.
type Verb uint8

// The operations of [Bound.Apply].
const (
	// Take spends the cost if that many units are available.
	Take Verb = iota
	// Peek reports what Take would decide, and changes nothing.
	Peek
	// Refund returns spent units to the key. The decision is that of a peek with cost 0
	// after the refund.
	Refund
	// Reset makes the key unused, as if no units had been spent. The decision is that
	// of a peek with cost 0 after the reset.
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
// operation on one key. It decides at the time given by the parameter now, which
// [StoreClock] sets to the current time of the store's clock. The caller must check
// that the cost is at least 0 and that the instant is valid. Keys are not retained.
type Bound interface {
	// Apply executes the operation verb on key. Reset ignores cost. If only holds can
	// take units under the algorithm, Take and Refund return [ErrHoldRequired].
	Apply(ctx context.Context, now Instant, key string, verb Verb, cost int64) (Decision, error)

	// Reserve spends cost units that are available now or within maxDelay. The
	// decision's Delay is the wait until they are available. A denial changes nothing
	// and sets RetryAfter like a denied Take. The token is an argument of a later
	// Cancel. An algorithm that cannot reserve returns [ErrUnsupported].
	Reserve(
		ctx context.Context, now Instant, key string, cost int64, maxDelay time.Duration,
	) (Decision, ReservationToken, error)

	// Cancel refunds the units of a Reserve, unless they are already due or a later
	// reservation exists. The delay of a later reservation has already been promised,
	// so a refund would grant the same time twice.
	Cancel(ctx context.Context, now Instant, key string, cost int64, token ReservationToken) (Decision, error)

	// Spacing returns a lower bound on the time until cost further units are available
	// to waiting callers. It does no I/O.
	Spacing(cost int64) time.Duration

	// CanReserve reports whether the store and the algorithm support Reserve and
	// Cancel.
	CanReserve() bool

	// Limit returns the maximum number of units that can be spent simultaneously, as in
	// [Decision.Limit]. It does no I/O.
	Limit() int64
}

// ReservationToken is the state of a key immediately after a reservation. Only the
// store that returned a token interprets it.
type ReservationToken [3]int64
