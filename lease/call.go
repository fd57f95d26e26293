package lease

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// leaseCall is a call of ApplyLease to the inner store. It is repeated with the same
// arguments until there is a reply, for at most one TTL.
type leaseCall struct {
	op        headgate.LeaseOp
	unspent   int64 // units of op.Previous that were not spent when the call was created
	createdAt int64
}

// renew starts a call, unless one is in flight. It does not wait for k.mu: if that is
// locked, a later request or the timer starts the call.
func (k *leasedKey) renew(now int64) {
	if k.mu.TryLock() {
		defer k.mu.Unlock()
		k.startCall(now)
	}
}

// renewIfDue is renew if the time of the next call has come.
func (k *leasedKey) renewIfDue(now int64) {
	if now >= k.state.Load().nextCallAt {
		k.renew(now)
	}
}

// joinCall starts a call if one is due, unless one is in flight. It returns a channel
// that is closed when the call in flight ends. The result is nil if there is none, or if
// the store has not answered the last one.
func (k *leasedKey) joinCall() <-chan struct{} {
	now := k.bound.store.clock()
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.state.Load()
	if now >= s.nextCallAt {
		k.startCall(now)
	}
	if s.callFailed {
		return nil
	}
	return k.inFlight
}

// startCall starts the next call in a new goroutine, unless a call of the key is in
// flight. If too many calls of other keys are in flight, the timer tries again. k.mu must
// be locked.
func (k *leasedKey) startCall(now int64) {
	if k.inFlight != nil || k.removed {
		return
	}
	if !k.bound.store.beginCall() {
		k.resetTimer(k.bound.minCallInterval)
		return
	}
	call := k.nextCall(now)
	go func() {
		defer k.bound.store.endCall()
		_ = k.execute(k.bound.store.ctx, call) // applyError has counted the error
	}()
}

// nextCall returns the call that has no reply yet, or a new one. The caller must execute
// it. k.mu must be locked, and no call of the key may be in flight.
func (k *leasedKey) nextCall(now int64) *leaseCall {
	k.dropExpiredCall(now)
	if k.pending == nil {
		k.pending = k.newCall(now)
	}
	k.inFlight = make(chan struct{})
	return k.pending
}

// dropExpiredCall drops a call that had no reply for one TTL, and with it the lease.
func (k *leasedKey) dropExpiredCall(now int64) {
	if k.pending != nil && now-k.pending.createdAt >= k.bound.ttl {
		k.dropLease()
	}
}

// newCall returns a call that reports what was spent. It takes further units, or returns
// the unspent ones if the key is released.
func (k *leasedKey) newCall(now int64) *leaseCall {
	b := k.bound
	// unspent is negative if the store granted fewer units for a repeated call than it
	// had granted before.
	unspent := max(k.unspent.Load(), 0)
	if k.releasing {
		unspent = max(k.unspent.Swap(0), 0)
	}
	k.spentVersion.Add(1) // after unspent was read; see unspend
	spent := k.units - unspent
	k.sizing.measureDemand(now, spent+k.uncovered.Swap(0), b.ttl, b.minCallInterval)
	op := headgate.LeaseOp{
		Bound: b.Bound, Key: k.key, Previous: k.id, Spent: spent, TTL: time.Duration(b.ttl), Max: b.maxUnits,
	}
	if !k.releasing {
		op.ID = headgate.NewHoldID()
		op.Want = max(k.sizing.target()-unspent, 0)
		if k.hasLease() {
			op.Max = b.renewalMax()
		}
	}
	return &leaseCall{op: op, unspent: unspent, createdAt: now}
}

// execute sends the call and applies its result. It ends the call in flight.
func (k *leasedKey) execute(ctx context.Context, call *leaseCall) error {
	s := k.bound.store
	ctx, cancel := context.WithTimeout(ctx, time.Duration(k.bound.ttl))
	defer cancel()
	s.totals.calls.Add(1)
	sent := s.clock()
	result, err := s.inner.ApplyLease(ctx, headgate.StoreClock, call.op)
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := s.clock(); err != nil {
		k.applyError(sent, err)
	} else {
		k.sizing.measureCall(now - sent)
		k.applyReply(call, sent, now, &result)
	}
	close(k.inFlight)
	k.inFlight = nil
	return err
}

// applyError keeps the call, so that the timer or a request repeats it. It removes the
// key if the inner store has no leases, or if a store is closed.
func (k *leasedKey) applyError(sent int64, err error) {
	b := k.bound
	b.store.totals.failed.Add(1)
	if errors.Is(err, headgate.ErrUnsupported) {
		b.unsupported.Store(true)
	}
	if b.unsupported.Load() || errors.Is(err, headgate.ErrClosed) || b.store.isClosed() {
		k.remove()
		return
	}
	s := *k.state.Load()
	s.callFailed, s.nextCallAt = true, sent+b.minCallInterval+jitter(b.minCallInterval)
	k.state.Store(&s)
	k.resetTimer(2 * b.minCallInterval)
}

// applyReply replaces the lease by that of the reply. The request was sent at the time
// sent. If the store did not carry the unspent units, the earlier lease had expired.
func (k *leasedKey) applyReply(call *leaseCall, sent, now int64, result *headgate.LeaseResult) {
	k.pending = nil
	if call.op.ID == (headgate.HoldID{}) {
		k.remove()
		return
	}
	granted := result.Units
	if result.PreviousOpen {
		granted -= call.unspent
	} else if call.op.Previous != (headgate.HoldID{}) {
		k.dropUnspent()
	}
	if k.id, k.units = call.op.ID, result.Units; result.Units == 0 {
		k.id = headgate.HoldID{}
	}
	k.sizing.adjustMax(granted < call.op.Want && result.Allowed, k.bound.renewalMax())
	s := k.newState(sent, now, result)
	k.state.Store(s)
	k.unspent.Add(granted)
	k.resetTimer(k.timeToTimer(s, sent, int64(result.TTL)))
}

func (k *leasedKey) hasLease() bool { return k.id != (headgate.HoldID{}) }

// dropLease drops the lease and the call without a reply. The units stay spent. k.mu must
// be locked.
func (k *leasedKey) dropLease() {
	k.dropUnspent()
	k.id, k.units, k.pending = headgate.HoldID{}, 0, nil
}

// dropUnspent makes the unspent units unusable: they are stranded. k.mu must be locked.
func (k *leasedKey) dropUnspent() {
	k.bound.store.totals.stranded.Add(max(k.unspent.Swap(0), 0))
	k.spentVersion.Add(1) // after unspent was emptied; see unspend
}
