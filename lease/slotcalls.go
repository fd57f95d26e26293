package lease

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// start makes the calls that are due, in a new goroutine, unless another one makes them.
// If too many calls are in flight, start does nothing, and the next tick repeats it. c.mu
// must be locked.
func (c *slotLease) start() {
	s := c.bound.store
	if c.running != nil || c.next() == nil || !s.beginCall() {
		return
	}
	c.running = make(chan struct{})
	go func() {
		defer s.endCall()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.run(s.ctx)
	}()
}

// wait makes the calls that are due, or waits until another goroutine has made its calls.
// It returns the error of its own extension. c.mu must be locked.
func (c *slotLease) wait(ctx context.Context) error {
	if c.running == nil {
		c.running = make(chan struct{})
		c.run(ctx)
		return c.failure
	}
	done := c.running
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run makes the calls that are due, one after another. c.mu must be locked. It is
// unlocked during each call.
func (c *slotLease) run(ctx context.Context) {
	for call := c.next(); call != nil; call = c.next() {
		call(ctx)
	}
	c.minSlots, c.getDue, c.extendDue = math.MaxInt64, false, false
	close(c.running)
	c.running = nil
}

// next returns the next call that is due, or nil. c.mu must be locked.
func (c *slotLease) next() func(context.Context) {
	switch {
	case c.hasSurplus(max(c.minSlots, c.inUse)):
		return c.release
	case c.extendDue && len(c.chunks) > 0:
		return c.extend
	case c.getDue && c.units < c.bound.max:
		return c.takeChunk
	}
	return nil
}

// hasSurplus reports whether the chunks without the newest one have at least keep slots.
func (c *slotLease) hasSurplus(minSlots int64) bool {
	n := len(c.chunks)
	return n > 0 && c.units-c.chunks[n-1].units >= minSlots
}

// pop removes the newest chunk. Its slots must be free. c.mu must be locked.
func (c *slotLease) pop() chunk {
	last := len(c.chunks) - 1
	k := c.chunks[last]
	c.chunks, c.units = c.chunks[:last], c.units-k.units
	return k
}

// release returns the slots of the newest chunk.
func (c *slotLease) release(ctx context.Context) { c.cancel(ctx, []chunk{c.pop()}) }

// cancel ends chunks that this process no longer uses. If the call fails, their slots
// stay taken until their deadlines.
func (c *slotLease) cancel(ctx context.Context, chunks []chunk) {
	if len(chunks) == 0 {
		return
	}
	if _, err := c.call(ctx, headgate.CommitHold, 0, chunks); err != nil {
		for _, k := range chunks {
			c.bound.store.totals.stranded.Add(k.units)
		}
	}
}

// extend extends all chunks. If the store does not know one of them, for example after a
// reset, all holds of this process end.
func (c *slotLease) extend(ctx context.Context) {
	c.extendDue = false
	sent := c.now()
	ttl := c.chunkTTL(sent)
	// The store may execute the call although its reply is lost.
	c.validUntil = min(c.validUntil, sent+validity(ttl))
	results, err := c.call(ctx, headgate.ExtendHold, ttl, slices.Clone(c.chunks))
	if c.failure = err; err != nil {
		c.unanswered = min(c.unanswered, ttl)
		return
	}
	if slices.ContainsFunc(results, func(r headgate.HoldResult) bool { return r.Err != nil }) {
		c.cancel(ctx, c.discardChunks())
		return
	}
	c.validUntil, c.remaining = sent+validity(min(ttl, c.unanswered)), results[0].Remaining
}

// takeChunk takes a further chunk. If the store denies it, takeChunk tries once more,
// with as many slots as remain.
func (c *slotLease) takeChunk(ctx context.Context) {
	c.getDue = false
	n := min(max(c.missed, 1), max(c.units, 1), c.bound.max-c.units)
	for tries := 0; tries < 2 && n > 0; tries++ {
		sent := c.now()
		ttl, k := c.chunkTTL(sent), chunk{headgate.NewHoldID(), n}
		results, err := c.call(ctx, headgate.OpenHold, ttl, []chunk{k})
		if err != nil { // the store may have opened it
			c.cancel(ctx, []chunk{k})
			break
		}
		c.remaining = results[0].Remaining
		if results[0].Allowed && results[1].Allowed {
			c.add(k, sent+validity(ttl))
			return
		}
		n = min(results[0].Remaining, results[1].Remaining, n)
	}
	c.nextGet = c.bound.store.clock() + c.bound.ttl/2 + jitter(c.bound.ttl/2)
}

// add adds a chunk that the store has until the given time. c.mu must be locked.
func (c *slotLease) add(k chunk, validUntil int64) {
	if len(c.chunks) > 0 {
		validUntil = min(validUntil, c.validUntil)
	} else {
		c.unanswered = math.MaxInt64
	}
	c.chunks, c.units, c.validUntil = append(c.chunks, k), c.units+k.units, validUntil
	c.missed, c.minSlots = 0, math.MaxInt64
}

// chunkTTL returns the TTL of chunks: that of the longest hold, until the next extension
// but one. The store's clock may be faster than that of this process by 1 %.
func (c *slotLease) chunkTTL(now int64) time.Duration {
	need := max(c.demand.longest, c.previous.longest, c.latest-now) + c.bound.ttl
	return (time.Duration(need/99*100) + 10*time.Microsecond).Truncate(time.Microsecond)
}

// validity returns how long a process may use a chunk with the given TTL, from before it
// sent the request, in ns.
func validity(ttl time.Duration) int64 {
	r := headgate.LeaseResult{TTL: ttl}
	return int64(r.Validity())
}

// call executes an operation on chunks, under the limit and in the pool. The results have
// both in turn. c.mu must be locked. It is unlocked during the call.
func (c *slotLease) call(
	ctx context.Context, verb headgate.HoldVerb, ttl time.Duration, chunks []chunk,
) ([]headgate.HoldResult, error) {
	b, s := c.bound, c.bound.store
	ops := make([]headgate.HoldOp, 0, len(b.chunk)*len(chunks))
	for _, k := range chunks {
		for _, bound := range b.chunk {
			op := headgate.Op{Bound: bound, Key: c.key, Cost: k.units}
			ops = append(ops, headgate.HoldOp{Op: op, ID: k.id, Private: true})
		}
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	ctx, cancel := context.WithTimeout(ctx, max(time.Duration(b.ttl), ttl/4))
	defer cancel()
	s.totals.calls.Add(1)
	results := make([]headgate.HoldResult, len(ops))
	at, err := s.inner.ApplyHolds(ctx, headgate.StoreClock, verb, ttl, ops, results)
	if b.setClockOffset(headgate.StoreClock, at, err); err != nil {
		s.totals.failed.Add(1)
	}
	return results, err
}

// end removes the key and releases its chunks. If all is false, it keeps those whose
// slots holds may have: they expire. If ctx ends before another goroutine has made its
// calls, end does nothing.
func (c *slotLease) end(ctx context.Context, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.running != nil {
		if c.wait(ctx) != nil {
			return
		}
	}
	if c.removed {
		return
	}
	c.removeFromTable()
	var ended []chunk
	for c.now(); !all && c.hasSurplus(c.inUse); {
		ended = append(ended, c.pop())
	}
	if all {
		ended = c.discardChunks()
	}
	c.running = make(chan struct{})
	c.cancel(ctx, ended)
	close(c.running)
	c.running = nil
}
