// Package fallback keeps a limiter deciding while its store is unavailable. It is a
// [headgate.Store] that wraps another store, usually one that is reached over a
// network, with a time budget, a circuit breaker and three failure modes: fail open,
// fail closed and local fallback.
//
// # What it does
//
// Each decision calls the inner store, within a time budget. If the inner store cannot
// decide, the failure mode of the rule applies ([headgate.Rule].OnStoreError):
//
//   - closed: the typed error is returned, and the caller decides;
//   - open: the request is allowed;
//   - local: a store in this process decides, with this process's share of the limit.
//
// The decision contains the reason ([headgate.Decision].Degraded). A decision for a
// rule with the mode closed is never degraded.
//
// # Circuit breaker
//
// After a number of failures the circuit breaker opens: see [Options].Failures. The
// store is then probed in the background, and no caller waits for it. After a
// successful probe three requests are sent. If the store decides them, the breaker
// closes. This takes [Options].ProbeEvery and one round trip after the store has
// recovered. Only failures of a server count: unreachable, timed out, refused. A key of
// another type, too many concurrent callers and a caller that cancels do not count.
//
// # What it costs
//
// A decision costs 0.2 µs and one allocation of 32 bytes while the store is available
// (0.1 µs and no allocation if the caller's context is context.Background). All calls
// that start within one millisecond share a timer. While the breaker is open a decision
// costs 0.1 µs plus the cost of the local store.
//
// # What can be admitted
//
// The share of a key is a share of the limit's rate and of its capacity: see
// [Options].Instances. Local state is kept when the store recovers, so a store that
// fails repeatedly does not grant the share again each time. Let B + s·L/P be the bound
// of one store. N instances and their store together admit at most twice that in any
// span s, however often the store fails. Around one outage they admit at most 2·B more
// than the store alone. Local decisions are not charged to the store afterwards.
//
// A refund goes to the side that decides at that moment, and refunds at most what was
// spent there. The refunds of this module's middleware go to the side that granted the
// units. If that is the store, and it is unavailable, the units stay spent. A
// reservation is cancelled where it was made; if that is the store, and it is
// unavailable, the units stay spent. The store may have spent the units of a request
// that timed out, so such a request may count on both sides.
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

// Options are the settings of a [Store]. A field that is zero has its default;
// nil means all defaults.
type Options struct {
	// Budget is the longest time that a decision waits for the inner store: 1 ms to 1
	// min. 0 means [DefaultBudget]. It may be shorter by up to 1 ms and at most a
	// fiftieth.
	//
	// A caller with an earlier deadline waits for three quarters of its remaining time,
	// so that the failure mode can be applied before the deadline. If that is less than
	// half of the budget, and the store does not reply in it, the failure does not
	// count at first: the store is called again in the background. A caller without a
	// deadline that is cancelled returns when the inner store does, or at the end of
	// the budget.
	Budget time.Duration

	// Local is the store that decides for rules with the mode local, for example
	// memstore.New(…). Its size should be bounded. Without it, rules with the mode
	// local are refused. Close closes it together with the inner store.
	Local headgate.Store

	// Instances is the number of processes that share the inner store's limits, 1 to
	// 100,000. It is required with Local. A local decision grants 1/Instances of the
	// limit, exactly or rounded down, and at least one unit at a time:
	//
	//   - token_bucket, gcra, leaky_bucket: L per N·P, in lowest terms, with a capacity
	//     of B/N rounded down. All instances together grant at most N·max(1, ⌊B/N⌋) +
	//     s·L/P in any span s. That is the limit's own bound if B ≥ N, and up to N − B
	//     more if not. The requests of a leaky bucket are evenly spaced within each
	//     instance, not across instances.
	//   - token_bucket_interval: ⌊R/N⌋ per I, with a capacity as above. If R < N, it is
	//     1 per ⌈N/R⌉·I: never faster on average than the limit, but up to N − R more
	//     simultaneously.
	//   - windows: ⌊L/N⌋ per P, so at most the limit. If L < N, it is 1 per ⌈N/L⌉·P:
	//     never faster on average, but up to N − L more in one window.
	//
	// A period is at most 366 days. A limit of less than N units in 366 days is
	// therefore exceeded, by at most N units in that time. A cost above the share is
	// never allowed locally, whatever the limit: the decision has Never and Degraded
	// set.
	Instances int

	// MaxInFlight is how many callers may wait for the inner store concurrently. 0
	// means [DefaultMaxInFlight]. Further calls fail with [headgate.ReasonOverloaded]
	// without calling the store.
	MaxInFlight int

	// Failures is how many consecutive failures open the circuit breaker. 0 means
	// [DefaultFailures]. Calls count that began after the first failure, and the store
	// must have decided nothing for the time of one budget. The breaker also opens
	// after ten times as many failures within 10 s if at least half of all calls fail
	// for a second: with one of three nodes of a cluster unavailable, two thirds of the
	// keys are still decided. Replies within 10 µs count neither way: they come from a
	// cache in this process and contain no information about the server.
	Failures int

	// ProbeEvery is the time between two probes of an unavailable store: 1 ms to 1 min.
	// 0 means [DefaultProbeEvery]. A probe peeks at the key that failed last and
	// changes nothing.
	ProbeEvery time.Duration

	// Observer receives one event when the store becomes unavailable and one when it
	// has recovered, in order, on a goroutine of this package. nil disables events. It
	// must not call Close.
	Observer headgate.StoreObserver
}

// withDefaults replaces zero values with defaults. It returns an error for a value
// outside its range.
func (o Options) withDefaults() (Options, error) {
	if o.Local != nil && o.Instances == 0 {
		return o, errors.New("fallback: Local requires Instances: the number of processes that share the limits (1 if only this one does)")
	}
	o.Budget = cmp.Or(o.Budget, DefaultBudget)
	o.ProbeEvery = cmp.Or(o.ProbeEvery, DefaultProbeEvery)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	o.Failures = cmp.Or(o.Failures, DefaultFailures)
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

// Store is a [headgate.Store] that decides even if the store that it wraps is
// unavailable. It is safe for concurrent use.
type Store struct {
	inner       headgate.Store
	local       headgate.Store // nil without Options.Local
	instances   int64
	budget      budget
	breaker     *breaker
	maxInFlight int64
	inFlight    atomic.Int64
	closed      atomic.Bool
	closing     sync.Once
	closeErr    error
}

// New returns a store that wraps inner and owns it: Close closes inner. opts may be
// nil. It does no I/O.
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
		breaker:     newBreaker(&o),
		maxInFlight: int64(o.MaxInFlight),
	}, nil
}

// Bind prepares a rule for use; see [headgate.Store]. It returns
// [headgate.ErrUnsupported] for a rule with the mode local if there is no local store.
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
		return nil, fmt.Errorf("fallback: bind locally: %w", err)
	}
	return b, nil
}

// Shared returns the result of the inner store; see [headgate.Shared].
func (s *Store) Shared() bool { return headgate.Shared(s.inner) }

// Close stops the probes, waits for them, and closes the inner store and the local one.
// Later calls return [headgate.ErrClosed].
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.closed.Store(true)
		s.breaker.close()
		s.closeErr = s.inner.Close()
		if s.local != nil {
			s.closeErr = errors.Join(s.closeErr, s.local.Close())
		}
	})
	return s.closeErr
}
