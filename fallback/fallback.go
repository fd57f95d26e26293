// Package fallback says what holds while a store is away: it is a [headgate.Store] around another one, usually a store that is
// asked over a network.
//
// # What it does
//
// Each decision is asked of the inner store, within a budget of time. If that cannot decide, the rule says what holds
// ([headgate.Rule].OnStoreError):
//
//   - closed: the typed error is returned, and the caller decides;
//   - open: it is admitted;
//   - local: a store in this process decides, on this process' share of the limit.
//
// The decision says why it was not the store's ([headgate.Decision].Degraded). A decision for a rule that says closed never is.
//
// # When the store is not asked
//
// A store that fails is not asked for a while, so that nobody waits for it: see [Options].Failures. It is then probed in the
// background; no caller waits for a probe. Once a probe was answered three requests are sent, and if they are decided all are:
// [Options].ProbeEvery and one round trip after the store is back. What counts are the troubles of a server: unreachable, timed
// out, refused. A key that holds something else, too many callers at once and a caller who gives up say nothing about it.
//
// # What it costs
//
// 0.2 µs and one allocation of 32 bytes for each decision while the store is well (0.1 µs and none if the caller's context is
// context.Background): all that start within a millisecond share one timer. While the store is not asked a decision takes 0.1 µs,
// and what the local store takes.
//
// # What can be admitted
//
// A key's share is of the limit's rate and of its capacity: see [Options].Instances. Local state is not forgotten when the store
// is back, so that a store that comes and goes does not hand out the share anew each time. With B + s·L/P as the bound of one
// store, N instances and their store together admit at most twice that in any span s, however often the store goes; and around
// one outage at most 2·B more than the store alone. What is decided locally is not charged to the store afterwards.
//
// A refund goes to whichever side decides at that moment, and returns at most what was spent there. The refunds of this module's
// middleware go to the side that granted the units; if that is the store, and it is unavailable, the units stay spent. A reservation is cancelled where it was booked; if that is the store, and it is away, the units stay spent. A request that
// timed out may have been spent by the store, so it may count on both sides.
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

// Options are the settings of a [Store]. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Budget is the longest that a decision waits for the inner store: 1 ms to 1 min; 0 means [DefaultBudget]. It may be up to
	// 1 ms, and a fiftieth, shorter. A caller whose own deadline is nearer waits for three quarters of what it has, so that
	// what holds instead can be said in time; if that is less than half of the budget, and not enough, the store is asked once more
	// in the background before it counts. Whoever has no deadline and is cancelled meanwhile returns when the inner store
	// does, or with the budget.
	Budget time.Duration

	// Local is the store that decides for rules that say local, memstore.New(…) for one; it should be bounded. Rules that say
	// local are refused without it. It is closed together with the inner store.
	Local headgate.Store

	// Instances is how many processes share the inner store's limits, 1 to 100,000; it must be given with Local. A rule decided
	// locally grants 1/Instances of its limit, exactly or rounded down, and at least one unit at a time:
	//
	//   - token_bucket, gcra, leaky_bucket: L per N·P, in lowest terms, with a capacity of B/N rounded down. All instances
	//     together grant at most N·max(1, ⌊B/N⌋) + s·L/P in any span s: the limit's own bound if B ≥ N, and up to N − B more
	//     if not. A leaky bucket's requests are evenly spaced within each instance, not across them.
	//   - token_bucket_interval: ⌊R/N⌋ per I, with a capacity as above. If R < N, one per ⌈N/R⌉·I: never faster on average than
	//     the limit, but up to N − R more at once.
	//   - windows: ⌊L/N⌋ per P, so at most the limit. If L < N, one per ⌈N/L⌉·P: never faster on average, but up to N − L more
	//     in one window.
	//
	// A period is at most 366 days, so a limit of less than N units in 366 days is exceeded: by at most N units in that time.
	// A cost above the share is never admitted locally, whatever the limit: the decision says Never, and Degraded.
	Instances int

	// MaxInFlight is how many callers may wait for the inner store at once; 0 means [DefaultMaxInFlight]. What comes beyond is
	// not asked: [headgate.ReasonOverloaded].
	MaxInFlight int

	// Failures is how many failures in a row, of calls that began after the first had failed and with nothing decided for as long
	// as a budget, make the store count as away; 0 means [DefaultFailures]. Ten times as many within 10 s do so as well, if at least
	// half of all calls failed, for a second: of a cluster with one node of three away, two thirds of the keys are still decided.
	// Answers within 10 µs count neither way: they were remembered in this process, and say nothing about a server.
	Failures int

	// ProbeEvery is the time between two probes of a store that is away: 1 ms to 1 min; 0 means [DefaultProbeEvery]. A probe peeks
	// at the key that failed last; it changes nothing.
	ProbeEvery time.Duration

	// Observer hears when the store goes away and when it is back, once each, in order, on a goroutine of this package; nil
	// means nobody does. It must not call Close.
	Observer headgate.StoreObserver
}

// withDefaults replaces zeros, and reports what is outside its range.
func (o Options) withDefaults() (Options, error) {
	if o.Local != nil && o.Instances == 0 {
		return o, errors.New("fallback: Local is given without Instances: say how many processes share the limits; 1 if only this one does")
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
			return o, fmt.Errorf("fallback: %s is %v; accepted are 1ms to 1m, and 0 for the default", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name        string
		value, most int
	}{{"Instances", max(o.Instances, 1), maxInstances}, {"MaxInFlight", o.MaxInFlight, 1 << 30}, {"Failures", o.Failures, 1 << 20}} {
		if n.value < 1 || n.value > n.most {
			return o, fmt.Errorf("fallback: %s is %d; accepted are 1 to %d", n.name, n.value, n.most)
		}
	}
	if o.Instances < 0 {
		return o, fmt.Errorf("fallback: Instances is %d; accepted are 1 to %d", o.Instances, maxInstances)
	}
	return o, nil
}

// Store is a [headgate.Store] that answers also while the one it is made around is away. It is safe for concurrent use.
type Store struct {
	inner     headgate.Store
	local     headgate.Store // nil if there is none
	instances int64
	budget    budget
	breaker   *breaker
	most      int64
	inFlight  atomic.Int64
	closed    atomic.Bool
	closing   sync.Once
	closeErr  error
}

// New makes a store around inner, which it takes over: Close closes it. opts may be nil. It does no I/O.
func New(inner headgate.Store, opts *Options) (*Store, error) {
	if inner == nil {
		return nil, errors.New("fallback: no store was given")
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
		inner:     inner,
		local:     o.Local,
		instances: int64(o.Instances),
		budget:    newBudget(o.Budget),
		breaker:   newBreaker(&o),
		most:      int64(o.MaxInFlight),
	}, nil
}

// Bind makes a rule ready for use; see [headgate.Store]. A rule that says local is refused with [headgate.ErrUnsupported] when
// there is no local store.
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
		return nil, fmt.Errorf("fallback: bind: %w: the rule says local, and there is no local store; set Options.Local to memstore.New(…)",
			headgate.ErrUnsupported)
	}
	rule.Limit = share(rule.Algorithm, rule.Limit, s.instances)
	if b.local, err = s.local.Bind(rule); err != nil {
		return nil, fmt.Errorf("fallback: bind locally: %w", err)
	}
	return b, nil
}

// Shared returns what the inner store does; see [headgate.Shared].
func (s *Store) Shared() bool { return headgate.Shared(s.inner) }

// Close ends the probing, waits for it, and closes the inner store and the local one. Later calls answer [headgate.ErrClosed].
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
