package replay

import (
	"hash/maphash"
	"strings"
)

// hashSeed is the seed of all hashes of keys in this process, so that the hash of a key
// can be used in several tables. It is random, so that a client
// cannot choose keys that collide.
var hashSeed = maphash.MakeSeed()

// keyTable assigns a number to each distinct key: 0 for the first key, then 1 and so
// on. It copies the keys into large blocks of memory. The zero value is an empty table.
// It must not be used concurrently.
type keyTable struct {
	names  []string
	hashes []uint64
	slots  []keySlot // open-addressing hash table; its length is a power of two, at most three quarters of it are used
	arena  *strings.Builder
	held   int64 // memory of all blocks of key text, in bytes
}

// keySlot is a slot of the hash table. tag is the lower half of the key's hash, next is
// the number of the key plus 1, or 0 if the slot is empty.
type keySlot struct{ tag, next uint32 }

const (
	arenaBlock  = 64 << 10 // bytes of key text per allocation
	fewestSlots = 1 << 10
)

// len returns the number of distinct keys.
func (t *keyTable) len() int { return len(t.names) }

// bytes returns the number of bytes of memory that the table uses.
func (t *keyTable) bytes() int64 {
	return t.held + int64(cap(t.names))*16 + int64(cap(t.hashes))*8 + int64(len(t.slots))*8
}

// intern returns the number of a key, which it adds if it is new. hash is the key's
// hash with hashSeed.
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

// home returns the slot at which the search for a hash begins. It uses the upper half
// of the hash, because keySlot.tag is the lower half.
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

// keep copies key into the current block of memory and returns the copy. A block is
// allocated once with its full capacity, so that strings in it stay valid.
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

// clear removes all keys but keeps the memory of the hash table for reuse. Strings that
// were returned earlier stay valid.
func (t *keyTable) clear() {
	clear(t.slots)
	t.names, t.hashes, t.arena, t.held = t.names[:0], t.hashes[:0], nil, 0
}
