package lease

import (
	"context"
	"time"
)

// timeToTimer returns the time until onTimer, in ns: half of the TTL, or less if the
// lease ends earlier, with its window. ttl is that of the reply.
func (k *leasedKey) timeToTimer(s *decisionState, sent, ttl int64) int64 {
	b := k.bound
	if s.validUntil > sent && ttl < b.ttl {
		return min(ttl+b.minCallInterval/8, b.ttl/2)
	}
	return b.ttl / 2
}

// resetTimer sets the timer to the given time from now, in ns. k.mu must be locked.
func (k *leasedKey) resetTimer(after int64) {
	if k.timer == nil {
		k.timer = time.AfterFunc(time.Duration(after), k.onTimer)
		return
	}
	k.timer.Reset(time.Duration(after))
}

// onTimer renews the lease, repeats a call without a reply, or releases a key that has no
// requests.
func (k *leasedKey) onTimer() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.removed || k.inFlight != nil {
		return // the end of the call sets the timer
	}
	now := k.bound.store.clock()
	k.dropExpiredCall(now)
	idle := k.sizing.idle(k.units - k.unspent.Load() + k.uncovered.Load())
	switch {
	case k.releasing, idle && k.pending == nil:
		k.startRelease(now)
	case k.needsRequest(now):
		k.resetTimer(k.bound.ttl / 2)
	default:
		k.startCall(now)
	}
}

// needsRequest reports whether the next call waits for a request: there is no lease, or
// it is used up and the store has denied further units.
func (k *leasedKey) needsRequest(now int64) bool {
	denied := now < k.state.Load().deniedUntil && k.unspent.Load() == 0
	return k.pending == nil && (!k.hasLease() || denied)
}

// startRelease releases the key in the background.
func (k *leasedKey) startRelease(now int64) {
	if !k.mayHaveUnits() {
		k.remove()
		return
	}
	k.releasing = true
	k.startCall(now)
}

// mayHaveUnits reports whether the store may have a lease of this key and process. A call
// without a reply may have begun one.
func (k *leasedKey) mayHaveUnits() bool { return k.hasLease() || k.pending != nil }

// release returns the unspent units to the store and removes the key. It waits until a
// call in flight has ended.
func (k *leasedKey) release(ctx context.Context) {
	for {
		call, inFlight := k.nextRelease()
		switch {
		case call != nil:
			if k.execute(ctx, call) != nil {
				return
			}
		case inFlight != nil:
			select {
			case <-inFlight:
			case <-ctx.Done():
				return
			}
		default:
			return
		}
	}
}

// nextRelease returns the next step of a release: a call to execute, or the call in
// flight to wait for. If both are nil, the key is removed.
func (k *leasedKey) nextRelease() (call *leaseCall, inFlight <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releasing = true
	switch {
	case k.removed:
	case k.inFlight != nil:
		return nil, k.inFlight
	case !k.mayHaveUnits():
		k.remove()
	default:
		return k.nextCall(k.bound.store.clock()), nil
	}
	return nil, nil
}

// remove removes the key from the table. k.mu must be locked.
func (k *leasedKey) remove() {
	s := k.bound.store
	k.dropLease()
	k.removed = true
	k.state.Store(&decisionState{})
	s.totals.decisions.Add(k.decisions.Swap(0))
	if k.timer != nil {
		k.timer.Stop()
	}
	s.keys.remove(k)
}
