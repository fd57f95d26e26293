package memstore

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	bucketSlots = 8 // slots in a bucket: four cache lines
	// growthFactor is the size of the next table divided by the size of the current
	// one. With few steps, few old tables become garbage.
	growthFactor = 16
	slotBytes    = 32
	// loadPercent is the percentage of a table's slots that may be in use before the
	// table grows. The largest table may exceed it because shards fill unevenly.
	loadPercent   = 85
	displacePause = 16 // number of new keys that skip displacement after a failed displacement
	displaceDepth = 2  // maximum number of keys moved to make room for one key
)

// table is a hash table of slots with two candidate buckets for each key. A slot that
// has been used never becomes empty again, even if its key has expired and the slot is
// free. A key is stored in the first slot with room, and in the first bucket if that has
// room, so a search may end at an empty slot.
type table struct {
	slots   []slot
	buckets uint64
	changed pageFlags // nil if the store is not saved
}

func newTable(slots int) *table { return tableOf(make([]slot, roundUp(slots))) }

func tableOf(slots []slot) *table {
	return &table{slots: slots, buckets: uint64(len(slots) / bucketSlots)}
}

// bucket returns the second candidate bucket of the key with digest d if second is
// true, and otherwise the first. start is the slot of the bucket at which a search
// begins; it is at the start of a cache line.
func (t *table) bucket(d digest, second bool) (b []slot, start uint64) {
	h := d.lo
	if second {
		h = bits.RotateLeft64(d.lo, 32) ^ d.hi
	}
	i, _ := bits.Mul64(h, t.buckets)
	return t.slots[i*bucketSlots : i*bucketSlots+bucketSlots : i*bucketSlots+bucketSlots], d.hi & (bucketSlots - 2)
}

// find returns the slot of the key with digest d, or nil.
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

// shard is a part of a region. Its mutex is used only by rare operations: adding keys
// and growing the table.
type shard struct {
	table        atomic.Pointer[table]
	mu           sync.Mutex    // held to reassign a slot or to replace the table
	used         int           // number of slots that are not empty
	maxSlots     int           // number of slots of the largest table
	skipDisplace int32         // displacement is skipped for this number of new keys
	relocations  atomic.Uint32 // number of keys moved to their other bucket so far
	// slab is the memory that the largest tables of all shards share. It is divided
	// into siblings equal parts; this shard uses the part with number index.
	slab            *slab
	index, siblings int32
	tracked         bool // whether the store is saved; see pageFlags
	isOverflow      bool // whether the slots are overflow buckets
	_               [64 - 58]byte
}

// slab is the memory of the largest tables of all shards of a region. It is allocated
// in one piece when the first shard needs it, so that the operating system can map it
// with a few large pages. A lookup then costs one cache miss instead of two.
type slab struct {
	once  sync.Once
	slots []slot
	// freeHeld moves the state of a key back to its slot if its holds have expired; nil
	// in a region of overflow buckets.
	freeHeld func(d digest, now int64)
}

func (s *slab) part(i, shards, each int) []slot {
	s.once.Do(func() {
		s.slots = make([]slot, shards*each)
		adviseHugePages(s.slots)
	})
	return s.slots[i*each : (i+1)*each : (i+1)*each]
}

// region is a hash table that is divided into shards.
type region struct{ shards []shard }

// newRegion returns a region that is sized for n keys.
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

// freeHeldSlots sets freeHeld of all shards.
func (r *region) freeHeldSlots(freeHeld func(d digest, now int64)) {
	r.shards[0].slab.freeHeld = freeHeld
}

func roundUp(slots int) int { return max(1, (slots+bucketSlots-1)/bucketSlots) * bucketSlots }

// index returns the index of the shard of the key with digest d.
func (r *region) index(d digest) int { return int(d.hi >> 32 * uint64(len(r.shards)) >> 32) }

// shard returns the shard of the key with digest d.
func (r *region) shard(d digest) *shard { return &r.shards[r.index(d)] }

// bytes returns the number of bytes allocated for the tables.
func (r *region) bytes() (n int64) {
	for i := range r.shards {
		n += int64(len(r.shards[i].table.Load().slots)) * slotBytes
	}
	return n
}

// find returns the slot of the key with digest d, or nil. If a key is moved from its
// second bucket to its first during a search, the search may miss it. find therefore
// searches again if keys were moved in the meantime.
func (sh *shard) find(d digest) *slot {
	for {
		moves := sh.relocations.Load()
		s := sh.table.Load().find(d)
		if s != nil || sh.relocations.Load() == moves {
			return s
		}
	}
}

// awaitUnlock waits until no other goroutine is reassigning slots or replacing the
// table.
func (sh *shard) awaitUnlock() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
}

// allocate finds a slot for a key that has none and returns it locked, with the words
// that it contained. It uses a slot that is empty or has expired by the instant now,
// and grows the table if necessary and possible. If no slot is free, allocate returns
// nil. The caller holds sh.mu.
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
// Keys that have expired by the instant now are dropped.
func (sh *shard) growFor(n int, now int64) {
	for (sh.used+n)*100 > len(sh.table.Load().slots)*loadPercent && sh.grow(now) {
		continue
	}
}

// allocateWithoutGrowth is like allocate but never grows the table.
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

// lockFreeSlot returns, locked, the first slot in one bucket of the key with digest d
// that is empty or has expired by the instant now. It returns nil if there is none.
func (sh *shard) lockFreeSlot(t *table, d digest, second bool, now int64) (*slot, words) {
	b, start := t.bucket(d, second)
	for i := range uint64(bucketSlots) {
		s := &b[(start+i)%bucketSlots]
		holder, seen, ok := s.tryReadAny()
		if ok && seen.held() && sh.slab.freeHeld != nil {
			sh.slab.freeHeld(holder, now)
			holder, seen, ok = s.tryReadAny()
		}
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

// displace makes room in the two full buckets of the key with digest d. It moves a key
// from one of them to that key's other bucket and returns the vacated slot, locked. It
// returns nil if no key can be moved.
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

// relocate copies the key in slot s to a free slot of the key's other bucket and leaves
// s locked. If the other bucket is full, relocate first moves a key from there, and so
// on for up to depth further keys, as in cuckoo hashing. It returns false if it moved
// nothing.
func (sh *shard) relocate(t *table, s *slot, now int64, depth int) (words, bool) {
	d, seen, ok := s.tryReadAny()
	if !ok {
		return seen, false
	}
	first, _ := t.bucket(d, false)
	inFirst := contains(first, s)
	other, _ := t.bucket(d, inFirst)
	if contains(other, s) || !s.lock(seen) {
		return seen, false // both buckets are the same, or another goroutine writes the slot
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
	sh.changed(to)
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

// grow replaces the table with a larger one and drops keys that have expired by the
// instant now. It returns false if the table already has its maximum size. The caller
// holds sh.mu. A goroutine that reads a slot of the old table waits for sh.mu and then
// uses the new table.
func (sh *shard) grow(now int64) bool {
	old := sh.table.Load()
	if len(old.slots) >= sh.maxSlots {
		return false
	}
	var next *table
	if size := len(old.slots) * growthFactor; size*2 <= sh.maxSlots {
		next = newTable(size)
	} else { // the table at least doubles, so there is room for all keys
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
	if sh.tracked {
		next.trackAll()
	}
	sh.table.Store(next)
	return true
}

// rehash inserts a key into the table t, which no other goroutine uses yet. t is at
// least twice as large as the old table, so there is room.
func (sh *shard) rehash(t *table, d digest, w words, now int64) {
	sh.skipDisplace = 0
	s, seen := sh.allocateIn(t, d, now)
	s.assign(d, seen, w.withoutVersion())
}

// markMoved marks a slot as moved and returns what it contained. It first waits until
// no other goroutine is writing the slot.
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
