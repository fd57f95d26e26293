// Package fallback provides decisions while a store is unavailable. Its [Store] wraps
// another store, usually one that is reached over a network, and adds a time budget, a
// circuit breaker and three failure modes: fail open, fail closed and local fallback.
//
// # What it does
//
// Each decision calls the inner store with a time budget. If the inner store cannot
// decide, the failure mode of the rule applies ([headgate.Rule].OnStoreError):
//
//   - closed: the typed error is returned, and the caller decides;
//   - open: the request is allowed;
//   - local: a store in this process decides, with this process's share of the limit.
//
// A decision made by a failure mode contains the reason ([headgate.Decision].Degraded).
// In the mode closed, an error is returned instead of a degraded decision.
//
// # Circuit breaker
//
// After a number of failures the circuit breaker opens: see [Options].Failures. The
// store is then probed in the background, and no caller waits for it. After a
// successful probe, three requests are sent to the store. If the store decides them,
// the breaker closes. Closing takes [Options].ProbeEvery and one round trip after the
// store has recovered. Only failures of a server count: unreachable, timed out,
// refused. A key with a value of another type, too many concurrent callers and a caller
// that cancels do not count.
//
// A store with several servers can name the server of each key: see [headgate.NodeOf].
// Each server then has its own circuit breaker and its own probes, so that an unavailable
// server does not affect the keys of the others.
//
// # Cost
//
// While the store is available, this package adds 0.2 µs and one allocation of 32 bytes
// to a decision (0.1 µs and no allocation if the caller's context is
// context.Background). All calls that start within one millisecond share a timer. While
// the breaker is open, a decision costs 0.1 µs plus the cost of the local store.
//
// # Bound on allowed units
//
// The local store applies a share of the limit's rate and of its capacity to each key:
// see [Options].Instances. Local state is kept when the store recovers, so a store that
// fails repeatedly does not grant the share again after each failure. Let B + s·L/P be
// the maximum number of units that one store allows in any time span of length s, under a
// limit of L units per period P with capacity B. N
// instances and their store together allow at most twice as many units in any such
// span, however often the store fails. Around a single outage they allow at most 2·B
// units more than the store alone. Local decisions are not charged to the store
// afterwards.
//
// A refund is made in the store that decides at that moment, the inner or the local
// one, and refunds at most what was spent there. This module's middleware instead
// refunds in the store that granted the units, and a reservation is canceled in the
// store that made it. If the units were spent in the inner store, and it is unavailable
// now, they stay spent. The inner store may have spent the units of a request that
// timed out, so such a request may be charged in both stores.
//
// # Holds
//
// [headgate.Limiter.Hold] follows the failure mode like any take. See [Store.ApplyHolds]
// for commits and extensions of holds that were opened before or during an outage.
package fallback

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// The defaults of [Options].
const (
	DefaultBudget      = 50 * time.Millisecond
	DefaultMaxInFlight = 4096
	DefaultFailures    = 5
	DefaultProbeEvery  = 250 * time.Millisecond
)

// Options are the settings of a [Store]. A field with the zero value has the default
// given in its comment; nil options select all defaults.
type Options struct {
	// Budget is the maximum time that a decision waits for the inner store: 1 ms to 1
	// min. 0 means [DefaultBudget]. The actual time may be shorter, by at most 1 ms and
	// at most a fiftieth of the budget.
	//
	// If the caller's deadline is before the end of the budget, the call to the inner
	// store gets only three quarters of the remaining time. The failure mode can then be
	// applied before the deadline. If these three quarters are less than half of the
	// budget, a timeout is not counted as a failure, because it does not show that the
	// store is unhealthy. Instead, the request is repeated in the background with the
	// whole budget.
	//
	// A caller whose context has no deadline and is canceled waits until the inner store
	// returns or the budget ends.
	Budget time.Duration

	// Local is the store that decides for rules with the failure mode local, for
	// example memstore.New(…). Its size should be limited. If Local is nil, Bind
	// returns an error for such rules. Close closes Local together with the inner
	// store.
	Local headgate.Store

	// Instances is the number N of processes that share the limits of the inner store,
	// 1 to 100,000. It is required with Local. Each process may grant 1/N of the limit
	// locally, rounded down where that is not exact, but at least one unit at a time.
	// With a limit of rate L, period P and capacity B:
	//
	//   - token_bucket, gcra, leaky_bucket: each instance grants L units per N·P, as a
	//     fraction in lowest terms, with the capacity B/N, rounded down. All instances
	//     together grant at most N·max(1, ⌊B/N⌋) + s·L/P units in any time span of
	//     length s. This is within the bound of the limit itself if B ≥ N; otherwise it
	//     is up to N − B units more. The requests of a leaky bucket are evenly spaced
	//     within each instance, but not across instances.
	//   - token_bucket_interval: each instance grants ⌊L/N⌋ units per P, with the same
	//     capacity. If L < N, it grants 1 unit per ⌈N/L⌉·P: on average never more than
	//     the limit, but all instances together may grant up to N − L units more
	//     simultaneously.
	//   - algorithms that count in windows: each instance grants ⌊L/N⌋ units per P,
	//     which is within the limit. If L < N, it grants 1 unit per ⌈N/L⌉·P: on average
	//     never more than the limit, but all instances together may grant up to N − L
	//     units more in one window.
	//
	// A period is at most 366 days. A limit of fewer than N units in 366 days is
	// therefore exceeded, by at most N units in that time. A request with a cost above
	// the local share is never allowed locally, even if the cost is within the limit:
	// its decision has Never and Degraded set.
	Instances int

	// MaxInFlight is the maximum number of callers that may wait for the inner store
	// concurrently. 0 means [DefaultMaxInFlight]. Further calls are not sent to the
	// store and fail with [headgate.ReasonOverloaded].
	MaxInFlight int

	// Failures is the number of consecutive failures that opens the circuit breaker. 0
	// means [DefaultFailures]. Only calls that began after the first failure count, and
	// the store must have decided nothing for the time of one budget. The breaker also
	// opens after ten times as many failures within 10 s if at least half of all calls
	// fail for a second. Each node of the store is counted separately: see
	// [headgate.NodeOf]. If a store does not name its nodes and one of three is
	// unavailable, the breaker therefore stays closed and two thirds of the keys are
	// still decided. Replies within 10 µs are not counted: they come from a cache in
	// this process and show nothing about the server.
	Failures int

	// ProbeEvery is the time between two probes of an unavailable store: 1 ms to 1 min.
	// 0 means [DefaultProbeEvery]. A probe peeks at the key of the last failed
	// call on the same node and changes nothing.
	ProbeEvery time.Duration

	// Observer receives one event when the store, or one of its nodes, becomes
	// unavailable and one when it recovers. The events of one node are in order, on a
	// goroutine of this package. nil means LogEvents(nil), which logs to slog.Default.
	// Observer must not call Close.
	Observer headgate.StoreObserver
}

// withDefaults returns a copy of o with the defaults for fields with the zero value. It
// returns an error for a value outside its range.
func (o Options) withDefaults() (Options, error) {
	if o.Local != nil && o.Instances == 0 {
		return o, errors.New("fallback: Local requires Instances: the number of processes that share the limits (1 if only this one does)")
	}
	o.Budget = cmp.Or(o.Budget, DefaultBudget)
	o.ProbeEvery = cmp.Or(o.ProbeEvery, DefaultProbeEvery)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.Failures = cmp.Or(o.Failures, DefaultFailures)
	if o.Observer == nil {
		o.Observer = LogEvents(nil)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Budget", o.Budget}, {"ProbeEvery", o.ProbeEvery}} {
		if d.value < time.Millisecond || d.value > time.Minute {
			return o, fmt.Errorf("fallback: %s is %v; must be 1ms to 1m, or 0 for the default", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{{"Instances", max(o.Instances, 1), maxInstances}, {"MaxInFlight", o.MaxInFlight, 1 << 30}, {"Failures", o.Failures, 1 << 20}} {
		if n.value < 1 || n.value > n.most {
			return o, fmt.Errorf("fallback: %s is %d; must be 1 to %d", n.name, n.value, n.most)
		}
	}
	if o.Instances < 0 {
		return o, fmt.Errorf("fallback: Instances is %d; must be 1 to %d", o.Instances, maxInstances)
	}
	return o, nil
}

// Store is a [headgate.Store] that can decide even while the store that it wraps is
// unavailable. It may be used concurrently.
type Store struct {
	inner       headgate.Store
	local       headgate.Store // nil if Options.Local is nil
	instances   int64
	budget      budget
	breakers    *breakers
	maxInFlight int64
	inFlight    atomic.Int64
	closed      atomic.Bool
	// holdsLocally is true once a hold may have been opened in the local store.
	holdsLocally atomic.Bool
	closing      sync.Once
	closeErr     error
}

// New returns a store that wraps inner. The new store owns inner: Close closes both.
// opts may be nil. New does no I/O.
func New(inner headgate.Store, opts *Options) (*Store, error) {
	if inner == nil {
		return nil, errors.New("fallback: the inner store is nil")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{
		inner:       inner,
		local:       o.Local,
		instances:   int64(o.Instances),
		budget:      newBudget(o.Budget),
		breakers:    newBreakers(o),
		maxInFlight: int64(o.MaxInFlight),
	}, nil
}

// Bind prepares a rule for use; see [headgate.Store]. It returns
// [headgate.ErrUnsupported] for a rule with the failure mode local if there is no local
// store.
func (s *Store) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if s.closed.Load() {
		return nil, headgate.ErrClosed
	}
	b := &bound{store: s, mode: rule.OnStoreError}
	if err := b.mode.Validate(); err != nil {
		return nil, err
	}
	rule.OnStoreError = headgate.FailClosed
	var err error
	if b.inner, err = s.inner.Bind(rule); err != nil {
		return nil, err
	}
	if b.mode != headgate.FailLocal {
		return b, nil
	}
	if s.local == nil {
		return nil, fmt.Errorf("fallback: bind: %w: the mode local needs a local store; set Options.Local to memstore.New(…)",
			headgate.ErrUnsupported)
	}
	rule.Limit = share(rule.Algorithm, rule.Limit, s.instances)
	if b.local, err = s.local.Bind(rule); err != nil {
		return nil, fmt.Errorf("fallback: bind the rule to Options.Local: %w", err)
	}
	return b, nil
}

// Shared reports whether other processes may use the inner store's state; see
// [headgate.Shared].
func (s *Store) Shared() bool { return headgate.Shared(s.inner) }

// Close stops the probes and waits until they have ended. Then it closes the inner
// store and the local store. Later calls return [headgate.ErrClosed].
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.breakers.close()
		s.closeErr = s.inner.Close()
		if s.local != nil {
			s.closeErr = errors.Join(s.closeErr, s.local.Close())
		}
	})
	return s.closeErr
}
