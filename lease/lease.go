// Package lease lets a process spend units of a shared limit from memory. Its [Store]
// wraps a store that many processes share, usually one that is reached over a network.
// For a key with many requests, it takes units from the inner store in advance,
// decides in memory, and returns the units that were not spent. The processes together
// do not exceed the limit, with the exceptions below.
//
// # Protocol
//
//  1. A rule is leased if [headgate.Rule].Lease is set. A key is leased when this process
//     had more than three requests for it within one TTL. All other requests are passed
//     to the inner store.
//  2. A call takes units from the inner store. The store counts them as spent. It keeps a
//     lease: a random id, the units, and a deadline one TTL later.
//  3. A request that the lease covers is decided in memory, in about 0.1 µs and without
//     an allocation. The process stops spending after 99 % of the TTL, counted from
//     before it sent the call.
//  4. A renewal is one call in the background. It reports what was spent, and moves the
//     unspent units and further ones to a new lease. It is made before the units are used
//     up. Meanwhile, the process spends its unspent units.
//  5. A call without a reply is repeated with the same id, so the store grants it once.
//     After one TTL, the process drops the call and its lease.
//  6. At the limit, a reply has the time when units are available again. Until then, the
//     process denies in memory.
//  7. A key without further requests is released: a call returns the unspent units.
//  8. A lease that is not renewed expires at its deadline. All its units stay spent.
//
// docs/internals/leases.md describes the protocol, its proof and its model.
//
// # Bound on allowed units
//
// The units of a lease count as spent for every other process, and do not refill before
// the lease ends. So all processes together allow at most as many units as the limit
// without leases, in every time span. This holds if calls or replies are lost or
// repeated, and if a process is killed. The clocks of the processes need not be
// synchronized, but each must run within 1 % of the speed of the store's clock.
//
// After a failover that loses writes, and after a jump of the store's clock by more than
// 1 % of the TTL, up to Share more of the capacity is allowed, once and within one TTL. A
// reset makes a key unused, except for the units on lease. On Linux, the monotonic clock
// of Go does not advance while the machine is suspended: do not use leases on machines
// that can be suspended.
//
// # Slots
//
// Under a limit of concurrent units, which are called slots, a process takes slots with
// holds of the inner store, and gives them to its own holds in memory. Never more slots
// than the limit are under holds that have not expired. A hold is opened in memory if it
// has a random ID, one limit, and a TTL of at most one minute. Its deadline is its TTL
// from now, as requested. Only this process can end it. After a crash, slots are
// available again after the longest TTL of a hold and one TTL of the lease. See
// docs/guides/leases.md.
//
// # What it costs
//
// Units can be stranded: a process that is killed has a lease until it expires. All
// processes together have at most [headgate.LeaseSettings].Share of the capacity on lease
// for one key. So up to that many units are unavailable to other processes for one TTL,
// and a request with a cost above the rest of the capacity is denied. Too few units are
// then allowed, never too many.
//
// Refunds, debits, resets and changed limits reach other processes with a lease within
// one TTL. Until then these processes spend the rest of their leases.
// [headgate.Decision].Leased is true for a decision from memory. Its Remaining is that of
// the last reply of the store plus the units of the lease that are not spent. ResetAfter
// and RetryAfter are those of the last reply, less the time since.
//
// # Failures of the store
//
// While the inner store is unavailable, requests are decided from memory until the lease
// ends. Then they go to the inner store. Wrap it with package fallback first, so that the
// failure mode of the rule applies: lease.New(fallbackStore, nil).
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// The defaults of [Options].
const (
	DefaultMaxKeys     = 10_000
	DefaultMaxInFlight = 256
)

const (
	maxMaxKeys     = 1_000_000
	maxMaxInFlight = 1 << 16
	// closeTimeout is how long Close waits until all leases have been returned.
	closeTimeout = time.Second
)

// Options are the settings of a [Store]. A field with the zero value has the default
// given in its comment; nil options select all defaults.
type Options struct {
	// MaxKeys is the maximum number of keys that are leased at a time: 1 to 1,000,000. 0
	// means [DefaultMaxKeys]. Further keys are decided by the inner store. A leased key
	// takes about 0.5 KB of memory. A key without further requests is removed within
	// one TTL.
	MaxKeys int
	// MaxInFlight is the maximum number of renewals that are in flight at a time: 1 to
	// 65,536. 0 means [DefaultMaxInFlight]. Each of them is a goroutine. Further renewals
	// are postponed.
	MaxInFlight int
}

func (o Options) withDefaults() (Options, error) {
	o.MaxKeys = cmp.Or(o.MaxKeys, DefaultMaxKeys)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, DefaultMaxInFlight)
	if o.MaxKeys < 1 || o.MaxKeys > maxMaxKeys {
		return o, fmt.Errorf("lease: MaxKeys is %d; must be 1 to %d, or 0 for the default", o.MaxKeys, maxMaxKeys)
	}
	if o.MaxInFlight < 1 || o.MaxInFlight > maxMaxInFlight {
		return o, fmt.Errorf("lease: MaxInFlight is %d; must be 1 to %d, or 0 for the default", o.MaxInFlight, maxMaxInFlight)
	}
	return o, nil
}

// Store is a [headgate.LeaseStore] that spends units of leased keys from memory. It may
// be used concurrently. It has goroutines only while calls to the inner store are in
// flight.
type Store struct {
	inner       headgate.LeaseStore
	maxInFlight int
	clock       func() int64 // monotonic time of this process in ns, above 0
	keys        keyTable
	slots       slotTable
	requests    requestCounters

	ctx      context.Context // ends when Close no longer waits
	cancel   context.CancelFunc
	mu       sync.Mutex
	closed   bool // guarded by mu
	inFlight int  // guarded by mu
	calls    sync.WaitGroup
	closing  sync.Once
	closeErr error
	totals   totals
}

// totals are the counts of [Stats].
type totals struct{ calls, failed, waited, stranded, decisions atomic.Int64 }

// New returns a store that wraps inner. The new store owns inner: Close closes both.
// opts may be nil. New does no I/O.
func New(inner headgate.LeaseStore, opts *Options) (*Store, error) {
	if inner == nil {
		return nil, errors.New("lease: the inner store is nil")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	s := &Store{inner: inner, maxInFlight: o.MaxInFlight, clock: func() int64 { return int64(time.Since(start)) + 1 }}
	s.keys.init(o.MaxKeys)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Bind prepares a rule for use; see [headgate.Store]. For a rule that is not leased, it
// returns the Bound of the inner store. The leaky bucket, a sliding log with a period
// below the TTL, and a capacity too small for the share are not leased, even if the rule
// has settings for leases: see [EffectOf].
func (s *Store) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if err := rule.Lease.Validate(); err != nil {
		return nil, err
	}
	leased := rule
	rule.Lease = headgate.LeaseSettings{}
	inner, err := s.inner.Bind(rule)
	if err != nil || whyNotLeased(leased, inner.Limit()) != "" {
		return inner, err
	}
	if rule.Algorithm.OnlyHolds() {
		return s.bindSlots(leased, inner)
	}
	return s.newBound(leased, inner), nil
}

// Shared reports whether other processes may use the inner store's state; see
// [headgate.Shared].
func (s *Store) Shared() bool { return headgate.Shared(s.inner) }

// beginCall reports whether a call to the inner store may begin. If it may, the caller
// must call endCall after the call.
func (s *Store) beginCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.inFlight >= s.maxInFlight {
		return false
	}
	s.inFlight++
	s.calls.Add(1)
	return true
}

func (s *Store) endCall() {
	s.mu.Lock()
	s.inFlight--
	s.mu.Unlock()
	s.calls.Done()
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close returns the units of all leases to the inner store, for at most one second, and
// closes the inner store. Leases that were not returned expire. Later calls return
// [headgate.ErrClosed].
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		timer := time.AfterFunc(closeTimeout, s.cancel)
		s.calls.Wait()
		s.releaseAll()
		timer.Stop()
		s.cancel()
		s.closeErr = s.inner.Close()
	})
	return s.closeErr
}

// releaseAll returns the units of all leases, several at a time.
func (s *Store) releaseAll() {
	next := make(chan func(context.Context))
	var workers sync.WaitGroup
	for range min(s.maxInFlight, 32) {
		workers.Go(func() {
			for release := range next {
				release(s.ctx)
			}
		})
	}
	for _, k := range s.keys.all() {
		next <- k.release
	}
	for _, c := range s.slots.all() {
		next <- func(ctx context.Context) { c.end(ctx, false) }
	}
	close(next)
	workers.Wait()
}
