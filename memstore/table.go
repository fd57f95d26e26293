package memstore

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	bucketSlots = 8 // slots in a bucket: four cache lines
	// growthFactor is the size of the next table over that of the current one. Few
	// steps leave little garbage.
	growthFactor = 16
	slotBytes    = 32
	// loadPercent is the target load of a table. The largest table may exceed it
	// because shards fill unevenly.
	loadPercent   = 85
	displacePause = 16 // new keys that skip displacement after it has failed once
	displaceDepth = 2  // maximum number of keys moved to make room for one
)

// table is a hash table of slots with two candidate buckets for each key. A slot that
// was used is never empty again. A key goes to the first bucket and the first slot with
// room, so a search may end at an empty slot.
type table struct {
	slots   []slot
	buckets uint64
}

func newTable(slots int) *table { return tableOf(make([]slot, roundUp(slots))) }

func tableOf(slots []slot) *table {
	return &table{slots: slots, buckets: uint64(len(slots) / bucketSlots)}
}

// bucket returns the first or, if second is true, the other bucket of a key. start is
// the slot in it where the search begins; it is at the start of a cache line.
func (t *table) bucket(d digest, second bool) (b []slot, start uint64) {
	h := d.lo
	if second {
		h = bits.RotateLeft64(d.lo, 32) ^ d.hi
	}
	i, _ := bits.Mul64(h, t.buckets)
	return t.slots[i*bucketSlots : i*bucketSlots+bucketSlots : i*bucketSlots+bucketSlots], d.hi & (bucketSlots - 2)
}

// find returns the slot of the key, or nil.
func (t *table) find(d digest) *slot {
	if s, end := t.findIn(d, false); s != nil || end {
		return s
	}
	s, _ := t.findIn(d, true)
	return s
}

func (t *table) findIn(d digest, second bool) (s *slot, end bool) {
	b, start := t.bucket(d, second)
	for i := range uint64(bucketSlots) {
		s := &b[(start+i)%bucketSlots]
		switch s.hi.Load() {
		case d.hi:
			if s.lo.Load() == d.lo {
				return s, true
			}
		case 0:
			return nil, true
		}
	}
	return nil, false
}

// shard is a part of a region. Its lock serves rare operations: new keys and growth.
type shard struct {
	table        atomic.Pointer[table]
	mu           sync.Mutex    // held to reassign a slot and to replace the table
	used         int           // slots that are not empty
	maxSlots     int           // slots of the largest table
	skipDisplace int32         // number of new keys for which displacement is not tried
	relocations  atomic.Uint32 // keys moved to their other bucket so far
	// slab is the memory of the largest table: the shard uses part index of siblings
	// equal parts.
	slab            *slab
	index, siblings int32
	_               [64 - 56]byte
}

// slab is the memory of the largest tables of all shards of a region. It is allocated
// in one piece when the first shard needs it, so that the operating system can map it
// with few large pages. A lookup then costs one cache miss instead of two.
type slab struct {
	once  sync.Once
	slots []slot
}

func (s *slab) part(i, shards, each int) []slot {
	s.once.Do(func() {
		s.slots = make([]slot, shards*each)
		adviseHugePages(s.slots)
	})
	return s.slots[i*each : (i+1)*each : (i+1)*each]
}

// region is a set of shards.
type region struct{ shards []shard }

// newRegion returns a region with room for n keys.
func newRegion(n int) region {
	count := 1
	for count < 256 && n/count > 4096 {
		count *= 2
	}
	r := region{shards: make([]shard, count)}
	shared := &slab{}
	for i := range r.shards {
		sh := &r.shards[i]
		sh.maxSlots = roundUp((n*100/loadPercent + count - 1) / count)
		sh.slab, sh.index, sh.siblings = shared, int32(i), int32(count)
		sh.table.Store(newTable(sh.maxSlots / growthFactor / growthFactor))
	}
	return r
}

func roundUp(slots int) int { return max(1, (slots+bucketSlots-1)/bucketSlots) * bucketSlots }

// index returns the index of a key's shard.
func (r *region) index(d digest) int { return int(d.hi >> 32 * uint64(len(r.shards)) >> 32) }

// shard returns the shard of a key.
func (r *region) shard(d digest) *shard { return &r.shards[r.index(d)] }

// bytes returns the memory allocated for the tables.
func (r *region) bytes() (n int64) {
	for i := range r.shards {
		n += int64(len(r.shards[i].table.Load().slots)) * slotBytes
	}
	return n
}

// find returns the slot of a key, or nil. A search misses a key that is moved at the
// same time from its second bucket to its first. A search during which keys were
// relocated therefore starts again.
func (sh *shard) find(d digest) *slot {
	for {
		moves := sh.relocations.Load()
		s := sh.table.Load().find(d)
		if s != nil || sh.relocations.Load() == moves {
			return s
		}
	}
}

// awaitUnlock waits until no other goroutine reassigns slots or replaces the table.
func (sh *shard) awaitUnlock() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
}

// allocate finds a slot for a key that has none and returns it locked, with the words
// that it contained. It uses slots that are empty or expired at the instant now, and
// grows the table if it can. It returns nil if no slot is free. The caller holds
// sh.mu.
func (sh *shard) allocate(d digest, now int64) (*slot, words) {
	sh.growFor(1, now)
	for {
		if s, seen := sh.allocateWithoutGrowth(d, now); s != nil {
			return s, seen
		}
		if !sh.grow(now) {
			return nil, words{}
		}
	}
}

// growFor grows the table until it has room for n more keys or has its maximum size.
func (sh *shard) growFor(n int, now int64) {
	for (sh.used+n)*100 > len(sh.table.Load().slots)*loadPercent && sh.grow(now) {
		continue
	}
}

// allocateWithoutGrowth is like allocate but leaves the table at its size.
func (sh *shard) allocateWithoutGrowth(d digest, now int64) (*slot, words) {
	return sh.allocateIn(sh.table.Load(), d, now)
}

func (sh *shard) allocateIn(t *table, d digest, now int64) (*slot, words) {
	for _, second := range [...]bool{false, true} {
		if s, seen := sh.lockFreeSlot(t, d, second, now); s != nil {
			return s, seen
		}
	}
	return sh.displace(t, d, now)
}

// lockFreeSlot locks the first slot of a bucket that is empty or expired.
func (sh *shard) lockFreeSlot(t *table, d digest, second bool, now int64) (*slot, words) {
	b, start := t.bucket(d, second)
	for i := range uint64(bucketSlots) {
		s := &b[(start+i)%bucketSlots]
		holder, seen, ok := s.tryReadAny()
		if !ok || seen.expiry() > now || !s.lock(seen) {
			continue
		}
		if holder.hi == 0 {
			sh.used++
		}
		return s, seen
	}
	return nil, words{}
}

// displace makes room in the full buckets of d. It moves one of their keys to that
// key's other bucket and returns the vacated slot, locked.
func (sh *shard) displace(t *table, d digest, now int64) (*slot, words) {
	if sh.skipDisplace > 0 {
		sh.skipDisplace--
		return nil, words{}
	}
	for depth := range displaceDepth {
		for _, second := range [...]bool{false, true} {
			b, _ := t.bucket(d, second)
			if s, seen := sh.relocateAny(t, b, now, depth); s != nil {
				return s, seen
			}
		}
	}
	sh.skipDisplace = displacePause
	return nil, words{}
}

func (sh *shard) relocateAny(t *table, b []slot, now int64, depth int) (*slot, words) {
	for i := range b {
		if seen, ok := sh.relocate(t, &b[i], now, depth); ok {
			return &b[i], seen
		}
	}
	return nil, words{}
}

// relocate copies a key to a free slot of its other bucket and leaves its old slot
// locked. If that bucket is full, it first relocates up to depth other keys from there,
// as in cuckoo hashing.
func (sh *shard) relocate(t *table, s *slot, now int64, depth int) (words, bool) {
	d, seen, ok := s.tryReadAny()
	if !ok {
		return seen, false
	}
	first, _ := t.bucket(d, false)
	inFirst := contains(first, s)
	other, _ := t.bucket(d, inFirst)
	if contains(other, s) || !s.lock(seen) {
		return seen, false // both buckets are the same, or the slot is being written
	}
	to, toSeen := sh.lockFreeSlot(t, d, inFirst, now)
	if to == nil && depth > 0 {
		to, toSeen = sh.relocateAny(t, other, now, depth-1)
	}
	if to == nil {
		s.at.Store(seen.at)
		return seen, false
	}
	to.assign(d, toSeen, seen.withoutVersion())
	sh.relocations.Add(1)
	return seen, true
}

func contains(b []slot, s *slot) bool {
	for i := range b {
		if &b[i] == s {
			return true
		}
	}
	return false
}

// grow replaces the table with a larger one and leaves out keys that are expired at the
// instant now. It returns false if the table has its maximum size. A goroutine that
// meets a slot of the old table waits for sh.mu and then finds the new table.
func (sh *shard) grow(now int64) bool {
	old := sh.table.Load()
	if len(old.slots) >= sh.maxSlots {
		return false
	}
	var next *table
	if size := len(old.slots) * growthFactor; size*2 <= sh.maxSlots {
		next = newTable(size)
	} else { // every step at least doubles the table, so all keys find room
		next = tableOf(sh.slab.part(int(sh.index), int(sh.siblings), sh.maxSlots))
	}
	sh.used = 0
	for i := range old.slots {
		d, seen := markMoved(&old.slots[i])
		if d.hi == 0 || seen.expiry() <= now {
			continue
		}
		sh.rehash(next, d, seen, now)
	}
	sh.table.Store(next)
	return true
}

// rehash inserts a key into a table that no other goroutine uses yet. The new table is
// at least twice as large, so there is room.
func (sh *shard) rehash(t *table, d digest, w words, now int64) {
	sh.skipDisplace = 0
	s, seen := sh.allocateIn(t, d, now)
	s.assign(d, seen, w.withoutVersion())
}

// markMoved marks a slot as moved. It waits until no other goroutine writes the slot.
func markMoved(s *slot) (digest, words) {
	for spins := 0; ; spins++ {
		d, seen, ok := s.tryReadAny()
		if ok && s.lock(seen) {
			s.at.Store(slotMoved)
			return d, seen
		}
		backOff(spins)
	}
}
