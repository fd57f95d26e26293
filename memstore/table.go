package memstore

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	bucketSlots = 8  // slots in a bucket: four cache lines
	growth      = 16 // how much larger the next table of a shard is: few steps leave little garbage
	slotBytes   = 32
	loadPercent = 85 // how full a table is made to be; the largest may become fuller, since shards do not fill evenly
	movePause   = 16 // how many new keys are not worth another try after moving keys about made no room
	moveDepth   = 2  // how many keys are moved, at most, to make room for one
)

// table is a hash table of slots. A key may lie in either of two buckets. A slot that was used is never empty again, and keys go
// to the first bucket and the first slot that has room: a search may end at an empty slot.
type table struct {
	slots   []slot
	buckets uint64
}

func newTable(slots int) *table { return tableOf(make([]slot, roundUp(slots))) }

func tableOf(slots []slot) *table {
	return &table{slots: slots, buckets: uint64(len(slots) / bucketSlots)}
}

// bucket is the first or, for second = true, the other bucket of a key, and the slot in it where the search begins: at the
// beginning of a cache line.
func (t *table) bucket(d digest, second bool) (b []slot, start uint64) {
	h := d.lo
	if second {
		h = bits.RotateLeft64(d.lo, 32) ^ d.hi
	}
	i, _ := bits.Mul64(h, t.buckets)
	return t.slots[i*bucketSlots : i*bucketSlots+bucketSlots : i*bucketSlots+bucketSlots], d.hi & (bucketSlots - 2)
}

// find is the slot of the key, or nil.
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

// shard is a part of a region with its own lock for what is rare: new keys and growth.
type shard struct {
	table           atomic.Pointer[table]
	mu              sync.Mutex    // held to give a slot to another key and to replace the table
	used            int           // slots that are not empty
	most            int           // slots of the largest table
	futile          int32         // new keys for which moving others is not tried
	moves           atomic.Uint32 // keys moved to their other bucket so far
	slab            *slab         // where the largest table is: in the part index of as many as there are shards
	index, siblings int32
	_               [64 - 56]byte
}

// slab is the memory of the largest tables of all shards of a region. It is allocated when the first of them is needed, in one
// piece, so that the operating system can map it with few, large pages: a look-up then costs one cache miss and not two.
type slab struct {
	once  sync.Once
	slots []slot
}

func (s *slab) part(i, shards, each int) []slot {
	s.once.Do(func() {
		s.slots = make([]slot, shards*each)
		preferLargePages(s.slots)
	})
	return s.slots[i*each : (i+1)*each : (i+1)*each]
}

// region is a set of shards.
type region struct{ shards []shard }

// newRegion has room for n keys.
func newRegion(n int) region {
	count := 1
	for count < 256 && n/count > 4096 {
		count *= 2
	}
	r := region{shards: make([]shard, count)}
	shared := &slab{}
	for i := range r.shards {
		sh := &r.shards[i]
		sh.most = roundUp((n*100/loadPercent + count - 1) / count)
		sh.slab, sh.index, sh.siblings = shared, int32(i), int32(count)
		sh.table.Store(newTable(sh.most / growth / growth))
	}
	return r
}

func roundUp(slots int) int { return max(1, (slots+bucketSlots-1)/bucketSlots) * bucketSlots }

// index is the place of a key's shard.
func (r *region) index(d digest) int { return int(d.hi >> 32 * uint64(len(r.shards)) >> 32) }

// shard is the shard of a key.
func (r *region) shard(d digest) *shard { return &r.shards[r.index(d)] }

// bytes is the memory that the tables hold.
func (r *region) bytes() (n int64) {
	for i := range r.shards {
		n += int64(len(r.shards[i].table.Load().slots)) * slotBytes
	}
	return n
}

// find is the slot of a key, or nil. A key that is moved from the bucket that is searched last to the one that was searched first
// would be missed, so a search during which keys were moved begins anew.
func (sh *shard) find(d digest) *slot {
	for {
		moves := sh.moves.Load()
		s := sh.table.Load().find(d)
		if s != nil || sh.moves.Load() == moves {
			return s
		}
	}
}

// settle waits until nobody gives slots away or replaces the table.
func (sh *shard) settle() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
}

// place finds a slot for a key that has none, at the instant now, and returns it locked, with its words as they were. It takes
// slots that are empty or as if never used; nil means that there are none. sh.mu is held.
func (sh *shard) place(d digest, now int64) (*slot, words) {
	sh.growFor(1, now)
	for {
		if s, seen := sh.placeWithoutGrowth(d, now); s != nil {
			return s, seen
		}
		if !sh.grow(now) {
			return nil, words{}
		}
	}
}

// growFor makes the table large enough for n keys more, if it may become so large.
func (sh *shard) growFor(n int, now int64) {
	for (sh.used+n)*100 > len(sh.table.Load().slots)*loadPercent && sh.grow(now) {
		continue
	}
}

// placeWithoutGrowth is place in the table as it is.
func (sh *shard) placeWithoutGrowth(d digest, now int64) (*slot, words) {
	return sh.placeIn(sh.table.Load(), d, now)
}

func (sh *shard) placeIn(t *table, d digest, now int64) (*slot, words) {
	for _, second := range [...]bool{false, true} {
		if s, seen := sh.takeFree(t, d, second, now); s != nil {
			return s, seen
		}
	}
	return sh.displace(t, d, now)
}

// takeFree locks the first slot of a bucket that is empty or as if never used.
func (sh *shard) takeFree(t *table, d digest, second bool, now int64) (*slot, words) {
	b, start := t.bucket(d, second)
	for i := range uint64(bucketSlots) {
		s := &b[(start+i)%bucketSlots]
		holder, seen, ok := s.peek()
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

// displace moves a key that lies in one of d's full buckets to its own other bucket, and returns the slot it left.
func (sh *shard) displace(t *table, d digest, now int64) (*slot, words) {
	if sh.futile > 0 {
		sh.futile--
		return nil, words{}
	}
	for depth := range moveDepth {
		for _, second := range [...]bool{false, true} {
			b, _ := t.bucket(d, second)
			if s, seen := sh.moveOneAway(t, b, now, depth); s != nil {
				return s, seen
			}
		}
	}
	sh.futile = movePause
	return nil, words{}
}

func (sh *shard) moveOneAway(t *table, b []slot, now int64, depth int) (*slot, words) {
	for i := range b {
		if seen, ok := sh.moveAway(t, &b[i], now, depth); ok {
			return &b[i], seen
		}
	}
	return nil, words{}
}

// moveAway copies a key to a free slot of its other bucket and leaves its old slot locked. If there is none it first moves up to
// depth other keys away from there, as cuckoo hashing does.
func (sh *shard) moveAway(t *table, s *slot, now int64, depth int) (words, bool) {
	d, seen, ok := s.peek()
	if !ok {
		return seen, false
	}
	first, _ := t.bucket(d, false)
	inFirst := within(first, s)
	other, _ := t.bucket(d, inFirst)
	if within(other, s) || !s.lock(seen) {
		return seen, false // both of its buckets are the same, or it is being written
	}
	to, toSeen := sh.takeFree(t, d, inFirst, now)
	if to == nil && depth > 0 {
		to, toSeen = sh.moveOneAway(t, other, now, depth-1)
	}
	if to == nil {
		s.at.Store(seen.at)
		return seen, false
	}
	to.assign(d, toSeen, seen.bare())
	sh.moves.Add(1)
	return seen, true
}

func within(b []slot, s *slot) bool {
	for i := range b {
		if &b[i] == s {
			return true
		}
	}
	return false
}

// grow replaces the table by a larger one, without the keys that are as if never used at the instant now. It is false when the
// table is the largest already. Whoever meets a slot of the old table meanwhile comes to sh.mu, and finds the new one after it.
func (sh *shard) grow(now int64) bool {
	old := sh.table.Load()
	if len(old.slots) >= sh.most {
		return false
	}
	var next *table
	if size := len(old.slots) * growth; size*2 <= sh.most {
		next = newTable(size)
	} else { // every step at least doubles, so that all keys find room in the next table
		next = tableOf(sh.slab.part(int(sh.index), int(sh.siblings), sh.most))
	}
	sh.used = 0
	for i := range old.slots {
		d, seen := retire(&old.slots[i])
		if d.hi == 0 || seen.expiry() <= now {
			continue
		}
		sh.rehash(next, d, seen, now)
	}
	sh.table.Store(next)
	return true
}

// rehash enters a key into a table that nobody else sees yet. The new table is several times as large, so there is room.
func (sh *shard) rehash(t *table, d digest, w words, now int64) {
	sh.futile = 0
	s, seen := sh.placeIn(t, d, now)
	s.assign(d, seen, w.bare())
}

// retire marks a slot as moved, waiting for whoever writes it.
func retire(s *slot) (digest, words) {
	for spins := 0; ; spins++ {
		d, seen, ok := s.peek()
		if ok && s.lock(seen) {
			s.at.Store(moved)
			return d, seen
		}
		pause(spins)
	}
}
