package lease

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// slotLease has the slots that this process has taken of one key, and the holds to which
// it gave them. The slots of the holds are never more than those of the chunks, and no
// hold has a deadline after validUntil. A hold keeps its slots for a little longer, so
// that no other hold of this process has them before the deadline that was reported. All
// times are those of [Store.clock].
type slotLease struct {
	bound *slotBound
	key   string

	mu       sync.Mutex
	holds    map[headgate.HoldID]slotHold
	expired  int   // number of holds without slots; they are kept for a minute
	inUse    int64 // slots of the holds
	earliest int64 // earliest time at which a hold loses its slots
	latest   int64 // latest deadline of a hold
	chunks   []chunk
	units    int64 // slots of the chunks
	// validUntil is the time until which the store has all chunks. It is before their
	// deadlines if the clock of this process is slow by 1 %.
	validUntil int64
	// unanswered is the shortest TTL of an extension of these chunks that had no reply.
	// The store may execute it at any later time.
	unanswered time.Duration
	remaining  int64 // slots of the store that were available to all at the last reply

	demand   slotDemand
	previous slotDemand // of the time between the last two ticks
	minSlots int64      // the newest chunk is released if the others have this many slots
	missed   int64      // slots that were not available in memory since the last growth
	nextGet  int64      // earliest time at which further slots are taken

	getDue, extendDue bool          // which calls the runner makes next
	running           chan struct{} // closed when the runner ends; nil if there is none
	failure           error         // of the last extension
	timer             *time.Timer
	removed           bool // the key is no longer in the table
}

// chunk is a hold of the inner store. Its slots are given to the holds of this process.
type chunk struct {
	id    headgate.HoldID
	units int64
}

// slotHold is a hold that was opened in memory. At deadline it has expired. It loses its
// slots later, at until; see [slotBound.lateBy].
type slotHold struct{ units, deadline, until int64 }

// slotDemand is what the process requested of a key between two ticks.
type slotDemand struct {
	asked   int64 // holds
	peak    int64 // maximum number of slots at the same time
	longest int64 // longest TTL of a hold, in ns
}

func newSlotLease(b *slotBound, key string) *slotLease {
	return &slotLease{
		bound: b, key: strings.Clone(key), holds: map[headgate.HoldID]slotHold{},
		earliest: math.MaxInt64, minSlots: math.MaxInt64,
	}
}

// open opens a hold of n slots, if they are free until its deadline.
func (c *slotLease) open(id headgate.HoldID, n, ttl int64) (result headgate.HoldResult, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	_, known := c.holds[id]
	if known || c.removed || len(c.holds)-c.expired >= c.bound.maxOpen {
		return result, false
	}
	if now+ttl > c.validUntil || n > c.free() {
		c.recordMiss(now, n, ttl)
		return result, false
	}
	c.demand.addRequest(ttl)
	c.inUse += n
	c.demand.peak = max(c.demand.peak, c.inUse)
	c.setDeadline(id, n, now+ttl)
	return c.result(now, now+ttl), true
}

// commit ends a hold. ok is false if the hold was not opened in memory.
func (c *slotLease) commit(id headgate.HoldID) (result headgate.HoldResult, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	h, ok := c.holds[id]
	if !ok {
		return result, false
	}
	c.remove(id)
	if h.deadline <= now {
		return headgate.HoldResult{Err: headgate.ErrExpiredHold}, true
	}
	return c.result(now, 0), true
}

// extendHold changes the deadline of a hold. If the chunks do not last as long, it
// extends them first. err is the error of the inner store.
func (c *slotLease) extendHold(
	ctx context.Context, id headgate.HoldID, ttl int64,
) (result headgate.HoldResult, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds[id].deadline > c.now() {
		err = c.await(ctx, ttl)
	}
	now := c.now()
	h, ok := c.holds[id]
	if !ok {
		return result, false, nil
	}
	switch deadline := min(now+ttl, c.validUntil); {
	case h.deadline <= now:
		c.remove(id)
		return headgate.HoldResult{Err: headgate.ErrExpiredHold}, true, nil
	case err != nil:
		return result, true, err
	default:
		c.setDeadline(id, h.units, deadline)
		return c.result(now, deadline), true, nil
	}
}

// setDeadline sets the deadline of a hold of n slots. c.mu must be locked.
func (c *slotLease) setDeadline(id headgate.HoldID, n, deadline int64) {
	until := deadline + c.bound.lateBy(deadline)
	c.holds[id] = slotHold{n, deadline, until}
	c.earliest, c.latest = min(c.earliest, until), max(c.latest, deadline)
}

// await waits until the chunks last for ttl. After an extension without a reply, they may
// not last as long. c.mu must be locked.
func (c *slotLease) await(ctx context.Context, ttl int64) error {
	for range 2 { // the first wait may end with calls that began before the extension was required
		if c.bound.store.clock()+ttl <= c.validUntil {
			return nil
		}
		c.requireExtension(ttl)
		isOwn := c.running == nil
		if err := c.wait(ctx); err != nil || isOwn {
			return err
		}
	}
	return c.failure
}

// beginExtension begins the extension that extendHold needs, in the background.
func (c *slotLease) beginExtension(id headgate.HoldID, ttl int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); c.holds[id].deadline > now && now+ttl > c.validUntil {
		c.requireExtension(ttl)
		c.start()
	}
}

// requireExtension lets the next call extend the chunks. c.mu must be locked.
func (c *slotLease) requireExtension(ttl int64) {
	c.demand.longest = max(c.demand.longest, min(ttl, int64(maxSlotTTL)))
	c.latest = max(c.latest, c.bound.store.clock()+ttl)
	c.extendDue = true
}

// peek returns the decision on n slots, if so many are free in memory.
func (c *slotLease) peek(n int64) (d headgate.Decision, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now < c.validUntil && n <= c.free() {
		return c.result(now, 0).Decision, true
	}
	return d, false
}

// result returns the result of an operation in memory. c.mu must be locked.
func (c *slotLease) result(now, deadline int64) headgate.HoldResult {
	d := headgate.Decision{
		Allowed: true, Leased: true, Limit: c.bound.limit, Remaining: min(c.remaining+c.free(), c.bound.limit),
		ResetAfter: timeUntil(c.validUntil, now),
	}
	c.bound.store.totals.decisions.Add(1)
	r := headgate.HoldResult{Decision: d}
	if deadline > 0 {
		r.Deadline = c.bound.instantOf(deadline)
	}
	return r
}

// free returns the number of slots that no hold has. c.mu must be locked.
func (c *slotLease) free() int64 { return c.units - c.inUse }

// now returns the time, after it ended the holds that have expired. c.mu must be locked.
func (c *slotLease) now() int64 {
	now := c.bound.store.clock()
	if now >= c.earliest {
		c.expire(now)
	}
	return now
}

// expire takes the slots of all holds that have expired. It keeps these holds for a
// minute, so that a commit reports that the hold has expired. c.mu must be locked.
func (c *slotLease) expire(now int64) {
	c.earliest = math.MaxInt64
	for id, h := range c.holds {
		switch {
		case h.until > now:
			c.earliest = min(c.earliest, h.until)
		case now-h.until > int64(maxSlotTTL) || c.expired >= c.bound.maxOpen:
			c.remove(id)
		case h.units > 0:
			c.inUse -= h.units
			c.holds[id] = slotHold{0, h.deadline, h.until}
			c.expired++
		}
	}
}

// remove removes a hold. c.mu must be locked.
func (c *slotLease) remove(id headgate.HoldID) {
	h := c.holds[id]
	if c.inUse -= h.units; h.units == 0 {
		c.expired--
	}
	delete(c.holds, id)
}

// recordMiss records that the store must decide a hold, and takes further slots or
// extends the chunks in the background. c.mu must be locked.
func (c *slotLease) recordMiss(now, n, ttl int64) {
	c.demand.addRequest(ttl)
	c.missed += n
	c.extendDue = c.extendDue || len(c.chunks) > 0 && now+ttl > c.validUntil
	c.getDue = c.getDue || n > c.free() && c.units < c.bound.max && now >= c.nextGet
	if c.getDue || c.extendDue {
		c.start()
	}
}

func (d *slotDemand) addRequest(ttl int64) { d.asked, d.longest = d.asked+1, max(d.longest, ttl) }

// tick extends the chunks of a key with requests, and releases unused chunks.
func (c *slotLease) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed || c.bound.store.isClosed() {
		return
	}
	c.expire(c.bound.store.clock())
	after, isActive := c.bound.ttl/2, c.demand.asked+c.previous.asked > 0
	c.minSlots = max(c.demand.peak, c.previous.peak, 1)
	c.minSlots += c.minSlots / 8
	switch {
	case isActive:
		c.extendDue = len(c.chunks) > 0
	case len(c.chunks)+len(c.holds) == 0 && c.running == nil:
		c.removeFromTable()
		return
	default:
		after, c.minSlots = 4*after, 0
	}
	c.previous, c.demand = c.demand, slotDemand{peak: c.inUse}
	c.missed = 0
	c.timer.Reset(time.Duration(after))
	c.start()
}

// removeFromTable removes the key from the table. c.mu must be locked.
func (c *slotLease) removeFromTable() {
	c.removed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.bound.store.removeSlots(c)
}

// discardChunks removes all chunks and ends all holds. c.mu must be locked.
func (c *slotLease) discardChunks() (dropped []chunk) {
	dropped = c.chunks
	c.chunks, c.units, c.inUse, c.validUntil = nil, 0, 0, 0
	clear(c.holds)
	c.expired = 0
	c.earliest, c.latest = math.MaxInt64, 0
	return dropped
}

// slotTable has the slotLeases by scope and key.
type slotTable struct {
	mu     sync.RWMutex
	leases map[slotKey]*slotLease
}

type slotKey struct{ scope, key string }

func (t *slotTable) find(scope, key string) *slotLease {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.leases[slotKey{scope, key}]
}

func (t *slotTable) all() []*slotLease {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.leases))
}

// addSlots adds c and reports whether it did. It does not if the store has the maximum
// number of leased keys.
func (s *Store) addSlots(c *slotLease) bool {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	k := slotKey{c.bound.scope, c.key}
	if s.slots.leases[k] != nil || s.keys.size.Load() >= s.keys.max {
		return false
	}
	s.keys.size.Add(1)
	if s.slots.leases == nil {
		s.slots.leases = map[slotKey]*slotLease{}
	}
	s.slots.leases[k] = c
	return true
}

func (s *Store) removeSlots(c *slotLease) {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	if k := (slotKey{c.bound.scope, c.key}); s.slots.leases[k] == c {
		delete(s.slots.leases, k)
		s.keys.size.Add(-1)
	}
}
