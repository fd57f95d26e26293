package memstore

import "github.com/headgate/headgate/algo"

// This file collects the records of what has changed, or of everything. It locks one
// shard at a time, and does no I/O while it holds a lock.

// collector collects records.
type collector struct {
	store  *Store
	frame  []byte              // records since the last flush, after the header of a frame
	flush  func()              // writes the frame; called without a lock
	held   map[digest]struct{} // keys whose last record has holds
	buffer []digest
	// maxHeld is the number of keys in held above which forgetHolds is called.
	maxHeld int
}

const (
	flushBytes = 1 << 20
	minHeld    = 1 << 10
)

func (c *collector) flushIfLarge() {
	if len(c.frame) >= flushBytes {
		c.flush()
	}
}

// changes collects all changes, and marks them as saved. It finds every change that was
// reported to a caller before the call.
func (c *collector) changes() {
	s := c.store
	for region, r := range [...]*region{&s.keys, &s.overflow} {
		for i := range r.shards {
			c.changedSlots(&r.shards[i], region, i)
		}
	}
	for i := range s.logs.shards {
		c.changedLogs(&s.logs.shards[i], i)
	}
	c.changedOverflowLogs()
	c.changedDocuments()
	if len(c.held) > c.maxHeld {
		c.forgetHolds()
	}
}

// forgetHolds removes the keys from held that have no holds anymore, and whose slots
// other keys use. So its size is proportional to that of the store's holds.
func (c *collector) forgetHolds() {
	for d := range c.held {
		sh := c.store.holds.shard(d)
		sh.mu.Lock()
		if k := sh.keys.get(d); k == nil && len(sh.records(d)) == 0 {
			c.holds(sh, d, nil, false)
		}
		sh.mu.Unlock()
	}
	c.maxHeld = minHeld + 2*len(c.held)
	c.flushIfLarge()
}

// changedSlots collects the slots of the pages that have changed. With the mutex of the
// shard, no key moves to another slot meanwhile.
func (c *collector) changedSlots(sh *shard, region, index int) {
	if !sh.table.Load().anyChanged() {
		return
	}
	sh.mu.Lock()
	t := sh.table.Load()
	c.frame = appendShard(c.frame, region, index, len(t.slots))
	for page := range t.changed {
		if t.changed[page].Swap(0) == 0 {
			continue
		}
		first := page * pageSlots
		for i := first; i < min(first+pageSlots, len(t.slots)); i++ {
			if t.slots[i].takeChanged() {
				c.slot(i, &t.slots[i])
			}
		}
	}
	sh.mu.Unlock()
	c.flushIfLarge()
}

// anyChanged reports whether a page has changed. A table that is replaced meanwhile is
// never reported as unchanged: see [table.trackAll].
func (t *table) anyChanged() bool {
	for i := range t.changed {
		if t.changed[i].Load() != 0 {
			return true
		}
	}
	return false
}

// takeChanged clears the bit changed, and reports whether it was set. It waits while
// another goroutine writes the slot.
func (s *slot) takeChanged() bool {
	for spins := 0; ; spins++ {
		at := s.at.Load()
		switch {
		case at&lockBit != 0:
			backOff(spins)
		case at&changedBit == 0:
			return false
		case s.at.CompareAndSwap(at, at&^changedBit):
			return true
		}
	}
}

// slot adds the record of a slot and, if holds are used, of the holds of its key at the
// same moment. The caller holds the mutex of the shard.
func (c *collector) slot(index int, s *slot) {
	d, w := s.readAny()
	if !c.store.holds.used.Load() || d == freeDigest {
		c.frame = appendSlot(c.frame, index, d, w.withoutVersion())
		return
	}
	sh := c.store.holds.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, w = s.readAny()
	k := sh.keys.get(d)
	if w.held() && k != nil {
		w = k.plainWords()
	}
	c.frame = appendSlot(c.frame, index, d, w.withoutVersion())
	c.holds(sh, d, k, false)
}

// holds adds the record of the holds of a key, unless it has none and the last record has
// none either. The caller holds sh.mu.
func (c *collector) holds(sh *holdShard, d digest, k *heldKey, isLog bool) {
	_, before := c.held[d]
	ended := sh.records(d)
	if k == nil && len(ended) == 0 {
		if before {
			delete(c.held, d)
			c.frame = appendHolds(c.frame, isLog, d, nil, nil)
		}
		return
	}
	if !before {
		c.held[d] = struct{}{}
	}
	c.frame = appendHolds(c.frame, isLog, d, ledgerOf(k), ended)
}

// ledgerOf returns the ledger of a key, or nil if the key is nil.
func ledgerOf(k *heldKey) *algo.Ledger {
	if k == nil {
		return nil
	}
	return &k.ledger
}

func (c *collector) changedLogs(sh *logShard, index int) {
	sh.mu.Lock()
	digests, all := sh.changes.take(c.buffer)
	if all {
		c.allLogs(sh, index)
	} else {
		c.buffer = digests
		for _, d := range digests {
			c.changedLog(sh, d)
		}
	}
	sh.mu.Unlock()
	c.flushIfLarge()
}

// changedLog adds the records of a log that has changed, and of its holds. The caller
// holds sh.mu.
func (c *collector) changedLog(sh *logShard, d digest) {
	k := sh.keys[d]
	switch {
	case k == nil:
		if one, ok := sh.singles[d]; ok {
			c.frame = appendSingle(c.frame, d, one)
		} else {
			c.frame = appendNoLog(c.frame, d)
		}
	case k.changed:
		_, from := k.log.Changes()
		c.log(false, d, k, from)
	}
	c.holdsOfLog(d)
}

// log adds the records of a log, and marks it as saved.
func (c *collector) log(overflow bool, d digest, k *keyLog, from int64) {
	c.frame = appendLog(c.frame, overflow, d, k.resetAt, &k.log, from)
	k.log.MarkSaved()
	k.changed = false
}

func (c *collector) holdsOfLog(d digest) {
	if !c.store.holds.used.Load() {
		return
	}
	sh := c.store.holds.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	c.holds(sh, d, sh.keys.get(d), true)
}

// allLogs adds the records of all logs of a shard in place of its earlier ones, and marks
// them as saved. The caller holds sh.mu.
func (c *collector) allLogs(sh *logShard, index int) {
	c.frame = appendLogShard(c.frame, index)
	for d, one := range sh.singles {
		c.frame = appendSingle(c.frame, d, one)
		c.holdsOfLog(d)
	}
	for d, k := range sh.keys {
		c.log(false, d, k, 0)
		c.holdsOfLog(d)
	}
}

// changedOverflowLogs adds the records of the overflow logs that have changed.
func (c *collector) changedOverflowLogs() {
	sh := &c.store.logs.overflow
	if !c.store.logs.overflowUsed.Load() {
		return
	}
	sh.mu.Lock()
	digests, all := sh.changes.take(c.buffer)
	if all {
		c.frame = appendLogShard(c.frame, len(c.store.logs.shards))
	}
	if all || len(digests) > 0 {
		for d, k := range sh.keys {
			if all || k.changed {
				c.log(true, d, k, 0)
			}
		}
	}
	sh.mu.Unlock()
	c.flushIfLarge()
}

// parts returns the number of parts of an image.
func (c *collector) parts() int {
	s := c.store
	return len(s.keys.shards) + len(s.overflow.shards) + len(s.logs.shards) + 1 + len(s.holds.shards) + 1
}

// imagePart adds the records of a part of the state that has not expired by now,
// whether or not it has changed. Changes stay marked.
func (c *collector) imagePart(part int, now int64) {
	s := c.store
	for region, r := range [...]*region{&s.keys, &s.overflow} {
		if part < len(r.shards) {
			c.imageOfSlots(&r.shards[part], region, part, now)
			return
		}
		part -= len(r.shards)
	}
	if part < len(s.logs.shards) {
		c.imageOfLogs(&s.logs.shards[part], now)
		return
	}
	if part -= len(s.logs.shards); part == 0 {
		c.imageOfOverflowLogs(now)
		return
	}
	if part--; part < len(s.holds.shards) {
		c.imageOfEnded(&s.holds.shards[part], now)
		return
	}
	c.imageOfDocuments()
}

// imageOfSlots adds all slots that are not empty. One that has expired is free, but not
// empty, because a search ends at an empty slot.
func (c *collector) imageOfSlots(sh *shard, region, index int, now int64) {
	sh.mu.Lock()
	slots := sh.table.Load().slots
	c.frame = appendShard(c.frame, region, index, len(slots))
	for i := range slots {
		switch d, w := slots[i].readAny(); {
		case d.hi == 0:
		case w.expiry() <= now:
			c.frame = appendSlot(c.frame, i, freeDigest, words{})
		default:
			c.slot(i, &slots[i])
		}
	}
	sh.mu.Unlock()
	c.flushIfLarge()
}

func (c *collector) imageOfLogs(sh *logShard, now int64) {
	sh.mu.Lock()
	for d, one := range sh.singles {
		if one.units() > 0 && one.resetAt() > now {
			c.frame = appendSingle(c.frame, d, one)
			c.holdsOfLog(d)
		}
	}
	for d, k := range sh.keys {
		if k.resetAt > now {
			c.frame = appendLog(c.frame, false, d, k.resetAt, &k.log, 0)
			c.holdsOfLog(d)
		}
	}
	sh.mu.Unlock()
	c.flushIfLarge()
}

func (c *collector) imageOfOverflowLogs(now int64) {
	sh := &c.store.logs.overflow
	sh.mu.Lock()
	for d, k := range sh.keys {
		if k.resetAt > now {
			c.frame = appendLog(c.frame, true, d, k.resetAt, &k.log, 0)
		}
	}
	sh.mu.Unlock()
	c.flushIfLarge()
}

// imageOfEnded adds the records of holds of keys whose state is in no slot and no log: of
// holds that have ended, and of open holds on a log without units.
func (c *collector) imageOfEnded(sh *holdShard, now int64) {
	c.buffer = c.buffer[:0]
	sh.mu.Lock()
	for d := range sh.ended {
		if sh.keys.get(d) == nil {
			c.holds(sh, d, nil, false)
		}
	}
	for k := range sh.keys.all {
		if k.usesLog() {
			c.buffer = append(c.buffer, k.digest)
		}
	}
	sh.mu.Unlock()
	for _, d := range c.buffer {
		logs := c.store.logs.shard(d)
		logs.mu.Lock()
		if k := logs.find(d, new(keyLog)); k == nil || k.log.Len() == 0 || k.resetAt <= now {
			c.holdsOfLog(d)
		}
		logs.mu.Unlock()
	}
	c.flushIfLarge()
}
