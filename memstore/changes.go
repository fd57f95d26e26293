package memstore

import (
	"sync/atomic"
	"unsafe"
)

// This file finds what has changed since the state was saved; see [saver]. In a store
// that is not saved, it costs one comparison for each write.

// pageSlots is the number of slots of a page: 1 KiB. With fewer slots, the flags take
// more of the processor's cache. With more, a sync reads more slots that have not
// changed.
const pageSlots = 32

// pageFlags has a flag for each page of a table. It is set after each write to a slot of
// the page, before the write is reported to the caller. The saver clears a flag before it
// reads the page, so that it finds every write that was reported before it began. Which
// slots of the page have changed, it finds in their words.
//
// Usually the flag is already set, and the write costs one load of a cache line that no
// other goroutine writes.
type pageFlags []atomic.Uint32

// track makes the table record changes.
func (t *table) track() { t.changed = make(pageFlags, (len(t.slots)+pageSlots-1)/pageSlots) }

// trackAll makes the table record changes, and marks all its slots as changed, which no
// other goroutine uses yet.
func (t *table) trackAll() {
	t.track()
	for i := range t.changed {
		t.changed[i].Store(1)
	}
}

// markChanged marks a slot of the table, which was just written, as changed. If the slot
// is in a table that this one has replaced, there is nothing to mark: the slots of a new
// table are all marked.
func (t *table) markChanged(s *slot) {
	if t.changed != nil {
		t.markPage(s)
	}
}

func (t *table) markPage(s *slot) {
	offset := uintptr(unsafe.Pointer(s)) - uintptr(unsafe.Pointer(&t.slots[0]))
	if page := offset / (slotBytes * pageSlots); page < uintptr(len(t.changed)) && t.changed[page].Load() == 0 {
		t.changed[page].Store(1)
	}
}

// changed marks a slot that was just written as changed.
func (sh *shard) changed(s *slot) { sh.table.Load().markChanged(s) }

// holdsChanged marks the slot of a key with open holds as changed, whose state is not in
// the slot.
func (s *Store) holdsChanged(d digest) {
	if s.saver != nil {
		s.markSlot(d)
	}
}

func (s *Store) markSlot(d digest) {
	sh := s.keys.shard(d)
	found := sh.find(d)
	if found == nil {
		return
	}
	for spins := 0; ; spins++ {
		at := found.at.Load()
		// A slot that was moved is marked where it is now.
		if at == slotMoved || at&changedBit != 0 && at&lockBit == 0 {
			break
		}
		if at&lockBit == 0 && found.at.CompareAndSwap(at, at|changedBit) {
			break
		}
		backOff(spins)
	}
	sh.changed(found)
}

// maxLogChanges is the maximum number of digests in [logChanges].
const maxLogChanges = 8192

// logChanges are the logs of a shard that have changed. If there are too many, all logs
// of the shard are saved. So the memory is bounded also while saving fails.
type logChanges struct {
	tracked bool
	all     bool
	digests []digest // can contain a digest several times
}

// logChanged records that k, the log of the key with digest d, has changed. d need not be
// the digest of an overflow log.
func (sh *logShard) logChanged(d digest, k *keyLog) {
	if !sh.changes.tracked || k.changed {
		return
	}
	k.changed = !k.isSingle
	sh.markChanged(d)
}

// markChanged records that the log, or the holds, of the key with digest d have changed.
func (sh *logShard) markChanged(d digest) {
	c := &sh.changes
	if !c.tracked || c.all {
		return
	}
	n := len(c.digests)
	switch {
	case n > 0 && c.digests[n-1] == d:
	case n >= maxLogChanges:
		c.all = true
	default:
		c.digests = append(c.digests, d)
	}
}

// take returns the digests of the changed logs, or all, and forgets them.
func (c *logChanges) take(buf []digest) (changed []digest, all bool) {
	changed, all = append(buf[:0], c.digests...), c.all
	c.digests, c.all = c.digests[:0], false
	return changed, all
}
