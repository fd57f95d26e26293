package lease

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// call is one call to the inner store, which may be repeated with the same arguments.
type call struct {
	op    headgate.LeaseOp
	rest  int64 // units of op.Previous that were not spent when the call began
	first int64 // when the call was sent for the first time
}

// renew begins a renewal in the background, unless one is in flight.
func (c *keyLease) renew(now int64) {
	if !c.mu.TryLock() {
		return // a later request or the timer begins it
	}
	defer c.mu.Unlock()
	if c.inFlight == nil && !c.removed {
		c.start(now)
	}
}

// join returns a channel that is closed when the call in flight ends. If there is none,
// it begins one. The result is nil if the caller should not wait.
func (c *keyLease) join(now int64) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.last.Load()
	if c.inFlight == nil && !c.removed && now >= r.nextCall {
		c.start(now)
	}
	if r.failed {
		return nil
	}
	return c.inFlight
}

// start begins a call in a new goroutine. c.mu must be locked, and no call may be in
// flight. If too many calls are in flight, start does nothing, and the timer repeats it.
func (c *keyLease) start(now int64) {
	if !c.bound.store.enter() {
		c.resetTimer(c.bound.minCallInterval)
		return
	}
	q := c.prepare(now)
	go func() {
		defer c.bound.store.leave()
		_ = c.run(c.bound.store.ctx, q) // fail has counted the error
	}()
}

// prepare returns the next call and makes it the one in flight: the call without a reply,
// or a new one. c.mu must be locked.
func (c *keyLease) prepare(now int64) *call {
	c.inFlight = make(chan struct{})
	b := c.bound
	if q := c.pending; q != nil && now-q.first < b.ttl {
		return q
	} else if q != nil {
		c.forget()
	}
	// The rest is negative if the store granted fewer units for a repeated call than it
	// had granted before.
	rest := max(c.rest.Load(), 0)
	if c.releasing {
		rest = max(c.rest.Swap(0), 0)
	}
	spent := c.units - rest
	c.spentVersion.Add(1) // after rest was read; see undo
	c.size.measure(now, spent+c.missed.Swap(0), b.ttl, b.minCallInterval)
	op := headgate.LeaseOp{Bound: b.Bound, Key: c.key, Previous: c.id, Spent: spent, TTL: time.Duration(b.ttl), Max: b.max}
	if !c.releasing {
		op.ID = headgate.NewHoldID()
		op.Want = max(c.size.target()-rest, 0)
		if c.id != (headgate.HoldID{}) {
			op.Max = b.renewalMax()
		}
	}
	c.pending = &call{op: op, rest: rest, first: now}
	return c.pending
}

// forget drops the lease. Its units stay spent. c.mu must be locked.
func (c *keyLease) forget() {
	c.strand()
	c.id, c.units, c.pending = headgate.HoldID{}, 0, nil
}

// strand makes the rest of the lease unusable. c.mu must be locked.
func (c *keyLease) strand() {
	c.bound.store.totals.stranded.Add(c.rest.Swap(0))
	c.spentVersion.Add(1) // after rest was emptied; see undo
}

// run executes q and applies its result.
func (c *keyLease) run(ctx context.Context, q *call) error {
	s := c.bound.store
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.bound.ttl))
	defer cancel()
	s.totals.calls.Add(1)
	sent := s.clock()
	result, err := s.inner.ApplyLease(ctx, headgate.StoreClock, q.op)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := s.clock()
	if err != nil {
		c.fail(sent, err)
	} else {
		c.size.measureTrip(now - sent)
		c.finish(q, sent, now, &result)
	}
	close(c.inFlight)
	c.inFlight = nil
	return err
}

// fail keeps the call, so that it is repeated until its TTL has passed. It removes the
// key if the inner store has no leases, or if a store is closed.
func (c *keyLease) fail(sent int64, err error) {
	s := c.bound.store
	s.totals.failed.Add(1)
	if errors.Is(err, headgate.ErrUnsupported) {
		c.bound.unsupported.Store(true)
	}
	if c.bound.unsupported.Load() || errors.Is(err, headgate.ErrClosed) || s.isClosed() {
		c.remove()
		return
	}
	r := *c.last.Load()
	r.failed, r.nextCall = true, sent+c.bound.minCallInterval+jitter(c.bound.minCallInterval)
	c.last.Store(&r)
	c.resetTimer(2 * c.bound.minCallInterval)
}

// finish applies the result of q, which was sent at the time sent for the last time.
func (c *keyLease) finish(q *call, sent, now int64, result *headgate.LeaseResult) {
	b := c.bound
	c.pending = nil
	if q.op.ID == (headgate.HoldID{}) {
		c.remove()
		return
	}
	granted := result.Units
	if result.Carried {
		granted -= q.rest
	} else if q.op.Previous != (headgate.HoldID{}) {
		c.strand()
	}
	r := &decisionState{nextCall: sent + b.minCallInterval/callsPerInterval, remaining: result.Remaining, resetAt: saturatingAdd(now, int64(result.ResetAfter))}
	if c.id, c.units = q.op.ID, result.Units; result.Units == 0 {
		c.id = headgate.HoldID{}
	} else {
		r.validUntil = sent + int64(result.Validity())
	}
	c.size.adjustMax(granted < q.op.Want && result.Allowed, b.renewalMax())
	r.renewBelow = c.size.renewBelow(result.Units, b.ttl)
	if !result.Allowed {
		r.deny(b, sent, now, &result.Decision)
	}
	c.last.Store(r)
	c.rest.Add(granted)
	c.resetTimer(r.nextTick(sent, b, int64(result.TTL)))
}

// nextTick returns the time until the next tick: half of the TTL, or the end of the
// lease if it ends earlier, with its window.
func (r *decisionState) nextTick(sent int64, b *bound, ttl int64) int64 {
	if r.validUntil > sent && ttl < b.ttl {
		return min(ttl+b.minCallInterval/8, b.ttl/2)
	}
	return b.ttl / 2
}

// resetTimer calls tick after the given time, in ns. c.mu must be locked.
func (c *keyLease) resetTimer(after int64) {
	if c.timer != nil {
		c.timer.Reset(time.Duration(after))
	}
}

// tick renews the lease after half of its TTL. If the key has no requests, it releases
// the key.
func (c *keyLease) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed || c.inFlight != nil {
		return // the end of the call sets the timer
	}
	now := c.bound.store.clock()
	if q := c.pending; q != nil && now-q.first >= c.bound.ttl {
		c.forget()
	}
	asked := c.units - c.rest.Load() + c.missed.Load()
	idle := asked-c.size.mark < 2
	c.size.mark = asked
	r := c.last.Load()
	switch {
	case c.releasing, idle && c.pending == nil:
		c.leave(now)
	case c.pending == nil && (c.id == headgate.HoldID{} || now < r.deniedUntil && c.rest.Load() == 0):
		c.resetTimer(c.bound.ttl / 2) // a request begins the next call
	default:
		c.start(now)
	}
}

// leave releases the key in the background.
func (c *keyLease) leave(now int64) {
	if c.id == (headgate.HoldID{}) && c.pending == nil {
		c.remove()
		return
	}
	c.releasing = true
	c.start(now)
}

// remove removes the key from the table. c.mu must be locked.
func (c *keyLease) remove() {
	s := c.bound.store
	c.forget()
	c.removed = true
	c.last.Store(&decisionState{})
	s.totals.decisions.Add(c.hits.Swap(0))
	if c.timer != nil {
		c.timer.Stop()
	}
	s.keys.remove(c)
}

// release returns the units of the lease to the store and removes the key. It waits until
// a call in flight has ended.
func (c *keyLease) release(ctx context.Context) {
	for c.releaseOnce(ctx) {
	}
}

// releaseOnce waits for the call in flight, or makes one. It reports whether the key must
// still be released.
func (c *keyLease) releaseOnce(ctx context.Context) (again bool) {
	c.mu.Lock()
	c.releasing = true
	switch done := c.inFlight; {
	case c.removed:
	case done != nil:
		c.mu.Unlock()
		select {
		case <-done:
			return true
		case <-ctx.Done():
			return false
		}
	case c.id == (headgate.HoldID{}) && c.pending == nil:
		c.remove()
	default:
		q := c.prepare(c.bound.store.clock())
		c.mu.Unlock()
		return c.run(ctx, q) == nil
	}
	c.mu.Unlock()
	return false
}
