package lease

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// leasedKey is a key that this process leases: its lease, and the calls that renew it. A
// decision from memory reads state, changes unspent and decisions, and locks nothing. All
// times are those of [Store.clock].
type leasedKey struct {
	bound *leasedBound
	key   string
	hash  uint64

	state     atomic.Pointer[decisionState]
	unspent   atomic.Int64 // units of the lease that were not spent
	decisions atomic.Int64 // number of decisions from memory
	// uncovered is the number of units that were requested since the last call and that
	// the lease did not cover.
	uncovered atomic.Int64
	// spentVersion changes when units that were spent before can no longer be returned to
	// the lease: a call has reported them, or the lease has ended. See unspend.
	spentVersion atomic.Int64

	mu    sync.Mutex
	timer *time.Timer // calls onTimer; nil before the first call has ended
	// id and units are the lease that the last reply granted. The zero id is no lease.
	id        headgate.HoldID
	units     int64
	pending   *leaseCall    // the call that has no reply yet; it is repeated
	inFlight  chan struct{} // closed when the call in flight ends; nil if there is none
	releasing bool          // the next call returns the units, and removes the key
	removed   bool          // the key is no longer in the table
	sizing    sizing
}

// newLeasedKey returns a key without a lease. demand is an estimate; see sizing.
func newLeasedKey(b *leasedBound, key string, hash uint64, now int64, demand float64) *leasedKey {
	k := &leasedKey{
		bound: b, key: strings.Clone(key), hash: hash,
		sizing: sizing{demand: demand, max: b.renewalMax(), measuredAt: now},
	}
	k.state.Store(&decisionState{})
	return k
}

// decide decides a take or a peek from memory. ok is false if it cannot.
func (k *leasedKey) decide(now int64, verb headgate.Verb, cost int64) (d headgate.Decision, ok bool) {
	s, peek := k.state.Load(), verb == headgate.Peek
	if unspent, covered := k.cover(s, now, cost, peek); covered {
		return k.allowed(s, now, unspent), true
	}
	if now >= s.deniedUntil || cost > k.bound.capacity {
		return d, false
	}
	if !peek {
		k.uncovered.Add(cost)
		k.decisions.Add(1)
	}
	return k.denied(s, now, cost), true
}

// cover reports whether the lease covers a request. Unless peek is true, it spends the
// units, and starts a renewal if few units are left. It returns the unspent units.
func (k *leasedKey) cover(s *decisionState, now, cost int64, peek bool) (unspent int64, ok bool) {
	if now >= s.validUntil {
		return 0, false
	}
	if peek {
		unspent = k.unspent.Load()
		return unspent, unspent >= cost
	}
	if unspent, ok = k.spend(cost); !ok {
		return unspent, false
	}
	k.decisions.Add(1)
	if unspent <= s.renewBelow && now >= s.nextCallAt && now >= s.deniedUntil {
		k.renew(now)
	}
	return unspent, true
}

// spend spends cost units if so many are unspent. It returns the unspent units.
func (k *leasedKey) spend(cost int64) (unspent int64, ok bool) {
	for unspent = k.unspent.Load(); unspent >= cost; unspent = k.unspent.Load() {
		if k.unspent.CompareAndSwap(unspent, unspent-cost) {
			return unspent - cost, true
		}
	}
	return unspent, false
}

// unspend returns units to the lease that were spent and that no request has used.
// version is the value of k.spentVersion before they were spent. If it has changed since,
// the units stay spent.
func (k *leasedKey) unspend(cost, version int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.spentVersion.Load() == version {
		k.unspent.Add(cost)
	}
}

// takeFromStore decides a take that could not be decided from memory. A call in flight
// may bring enough units. Otherwise the inner store decides.
func (k *leasedKey) takeFromStore(ctx context.Context, cost int64) (headgate.Decision, error) {
	if cost <= k.bound.maxUnits {
		if d, ok, err := k.takeAfterCall(ctx, cost); ok || err != nil {
			return d, err
		}
	}
	k.uncovered.Add(cost)
	sent := k.bound.store.clock()
	d, err := k.bound.Bound.Apply(ctx, headgate.StoreClock, k.key, headgate.Take, cost)
	if err == nil && !d.Allowed && cost == 1 && d.Degraded == headgate.ReasonNone {
		k.rememberDenial(sent, &d)
	}
	return d, err
}

// takeAfterCall waits for a call that renews the lease, and then decides a take from
// memory. ok is false if no call is in flight, or if the take still cannot be decided.
func (k *leasedKey) takeAfterCall(ctx context.Context, cost int64) (d headgate.Decision, ok bool, err error) {
	done := k.joinCall()
	if done == nil {
		return d, false, nil
	}
	s := k.bound.store
	s.totals.waited.Add(1)
	select {
	case <-done:
		d, ok = k.decide(s.clock(), headgate.Take, cost)
		return d, ok, nil
	case <-ctx.Done():
		return d, false, ctx.Err()
	}
}

// rememberDenial denies further requests in memory after the store has denied one unit.
func (k *leasedKey) rememberDenial(sent int64, d *headgate.Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := *k.state.Load()
	s.setDenied(k.bound, sent, k.bound.store.clock(), d)
	k.state.Store(&s)
}
