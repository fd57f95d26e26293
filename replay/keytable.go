package replay

import (
	"hash/maphash"
	"strings"
)

// hashSeed is shared by all tables of the process, so that a key is hashed once. It is
// random, so that no log can choose collisions.
var hashSeed = maphash.MakeSeed()

// keyTable assigns a number to each distinct key, in order of first appearance. Keys
// are copied into large blocks. The zero value is empty and ready to use. It is not
// safe for concurrent use.
type keyTable struct {
	names  []string
	hashes []uint64
	slots  []keySlot // a power of two, at most three quarters full
	arena  *strings.Builder
	held   int64 // bytes of all arenas
}

// keySlot is a slot of the hash table: number + 1, or 0 if free.
type keySlot struct{ tag, next uint32 }

const (
	arenaBlock  = 64 << 10 // bytes of key text per allocation
	fewestSlots = 1 << 10
)

// len returns the number of distinct keys.
func (t *keyTable) len() int { return len(t.names) }

// bytes returns the memory in use.
func (t *keyTable) bytes() int64 {
	return t.held + int64(cap(t.names))*16 + int64(cap(t.hashes))*8 + int64(len(t.slots))*8
}

// intern returns the number of a key. hash is its hash.
func (t *keyTable) intern(hash uint64, key []byte) uint32 {
	if 4*len(t.names) >= 3*len(t.slots) {
		t.grow()
	}
	at, tag := t.home(hash), uint32(hash)
	for ; t.slots[at].next != 0; at = (at + 1) & uint32(len(t.slots)-1) {
		if n := t.slots[at].next - 1; t.slots[at].tag == tag && t.names[n] == string(key) {
			return n
		}
	}
	t.names, t.hashes = append(t.names, t.keep(key)), append(t.hashes, hash)
	t.slots[at] = keySlot{tag: tag, next: uint32(len(t.names))}
	return uint32(len(t.names) - 1)
}

// home returns the first slot of a search. It uses other bits of the hash than the tag.
func (t *keyTable) home(hash uint64) uint32 { return uint32(hash>>32) & uint32(len(t.slots)-1) }

func (t *keyTable) grow() {
	t.slots = make([]keySlot, max(fewestSlots, 2*len(t.slots)))
	for n, hash := range t.hashes {
		at := t.home(hash)
		for t.slots[at].next != 0 {
			at = (at + 1) & uint32(len(t.slots)-1)
		}
		t.slots[at] = keySlot{tag: uint32(hash), next: uint32(n + 1)}
	}
}

// keep copies key into the current block. A block never grows, so that strings in it
// stay valid.
func (t *keyTable) keep(key []byte) string {
	if t.arena == nil || t.arena.Cap()-t.arena.Len() < len(key) {
		t.arena = &strings.Builder{}
		t.arena.Grow(max(arenaBlock, len(key)))
		t.held += int64(t.arena.Cap())
	}
	start := t.arena.Len()
	t.arena.Write(key)
	return t.arena.String()[start:]
}

// clear removes all keys and keeps the slots. Strings that were returned before stay
// valid.
func (t *keyTable) clear() {
	clear(t.slots)
	t.names, t.hashes, t.arena, t.held = t.names[:0], t.hashes[:0], nil, 0
}
