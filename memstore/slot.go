package memstore

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/headgate/headgate/algo"
)

// slot stores the digest and the state of one key in 32 bytes. Two slots share a cache
// line, and no slot is in two cache lines. The fields at and rest contain, from the
// highest bit to the lowest (A, B and C are the fields of [algo.State]):
//
//	at   A (53 bits) · TTL, high part (2) · version (7) · changed (1) · locked (1)
//	rest B (30 bits) · C (30) · TTL, low part (4)
//
// Every write increments the version and sets the bit changed, which only a [saver]
// clears. A writer that changes more than A also takes the
// lock bit. A reader that finds the same value of at before and after reading the other
// fields has therefore read one state of one key. A change of A alone (by a token bucket
// whose units each take a whole number of microseconds) is one compare-and-swap.
//
// The TTL is the time after A, in µs, during which the state may affect a decision,
// rounded up to a power of two. With it the store finds expired slots without knowing
// any algorithm.
type slot struct {
	hi, lo   atomic.Uint64 // digest of the key; hi is 0 if the slot was never used
	at, rest atomic.Uint64
}

const (
	lockBit    = 1
	changedBit = 1 << 1
	versionOne = 1 << 2
	versions   = 0x7f << 2
	// slotMoved is the value of at in every slot of a table that was replaced by a
	// larger one.
	slotMoved = ^uint64(0)
)

// words are the values of at and rest in a slot. Words that were read from a slot
// contain the lock bit, the bit changed and the version; words that are to be written
// contain none of them.
type words struct{ at, rest uint64 }

// pack encodes the state s, which expires at the instant resetAt.
func pack(s algo.State, resetAt int64) words {
	ttl := uint64(0)
	if resetAt > s.A {
		ttl = 1 + uint64(bits.Len64(uint64(resetAt-s.A-1)))
	}
	return words{
		at:   uint64(s.A)<<11 | ttl>>4<<9,
		rest: uint64(s.B)<<34 | uint64(s.C)<<4 | ttl&0xf,
	}
}

// heldWords are the words of a key with open holds, without lock bit and version. The TTL
// is one that pack never returns. The state is in the [holdRegion].
var heldWords = words{at: 3 << 9, rest: 0xf}

// held reports whether the key has open holds, so that w does not contain its state.
func (w words) held() bool { return w.rest&0xf == 0xf && w.at&(3<<9) == 3<<9 }

// equals reports whether w, which was read from a slot, has the same state and TTL as
// next, which is to be written.
func (w words) equals(next words) bool { return w.withoutVersion() == next }

// withoutVersion converts w, which was read from a slot, to the form for writing:
// without the version, the bit changed and the lock bit.
func (w words) withoutVersion() words {
	return words{at: w.at &^ (versions | changedBit | lockBit), rest: w.rest}
}

func (w words) state() algo.State {
	return algo.State{A: int64(w.at >> 11), B: int64(w.rest >> 34), C: int64(w.rest >> 4 & (1<<30 - 1))}
}

// expiry returns an instant at which the state has certainly expired. The time from A
// to this instant is at most twice the time from A to the exact expiry.
func (w words) expiry() int64 {
	ttl := w.at>>9&3<<4 | w.rest&0xf
	if ttl == 0 {
		return int64(w.at >> 11)
	}
	return int64(w.at>>11) + 1<<(ttl-1)
}

// read copies the state from the slot if the slot belongs to the key with digest d. It
// returns false if the slot belongs to another key or if the slot's table was replaced
// by a larger one. While another goroutine writes the slot, read waits.
func (s *slot) read(d digest) (words, bool) {
	for spins := 0; ; spins++ {
		at := s.at.Load()
		if at&lockBit == 0 {
			if s.hi.Load() != d.hi || s.lo.Load() != d.lo {
				return words{}, false
			}
			rest := s.rest.Load()
			if s.at.Load() == at {
				return words{at, rest}, true
			}
		} else if at == slotMoved {
			return words{}, false
		}
		backOff(spins)
	}
}

// commit replaces the state seen, which read has returned, with the state next. It
// returns false and changes nothing if another goroutine has changed the slot since the
// read. If only A changes, commit does not take the lock bit: it compares the field rest
// and then swaps the field at.
func (s *slot) commit(seen, next words) bool {
	if next.rest == seen.rest {
		return s.rest.Load() == seen.rest && s.at.CompareAndSwap(seen.at, seen.next(next))
	}
	if !s.lock(seen) {
		return false
	}
	s.unlock(seen, next)
	return true
}

// next returns the value of at that replaces w with the words to write: the version is
// incremented, the bit changed is set and the lock bit is clear.
func (w words) next(write words) uint64 {
	return write.at | (w.at+versionOne)&versions | changedBit
}

// lock takes the lock bit, without waiting, if the slot has not changed since seen was
// read. The version wraps after 128 changes, so the field at may have the same value
// although the slot has changed. lock therefore compares the field rest again after it
// has taken the lock bit, when no other goroutine can write the slot.
func (s *slot) lock(seen words) bool {
	if !s.at.CompareAndSwap(seen.at, seen.at|lockBit) {
		return false
	}
	if s.rest.Load() != seen.rest {
		s.at.Store(seen.at)
		return false
	}
	return true
}

// lockWait waits for the lock bit of the slot, which belongs to the key with digest d,
// and takes it. It returns the words that the slot contains. The caller holds the mutex
// of the shard, so the slot is not reassigned to another key.
func (s *slot) lockWait(d digest) words {
	for {
		if seen, ok := s.read(d); ok && s.lock(seen) {
			return seen
		}
	}
}

// unlock writes the state of a locked slot and clears the lock bit.
func (s *slot) unlock(seen, next words) {
	s.rest.Store(next.rest)
	s.at.Store(seen.next(next))
}

// assign writes a new key and state to a locked slot and unlocks it.
func (s *slot) assign(d digest, seen, next words) {
	s.hi.Store(d.hi)
	s.lo.Store(d.lo)
	s.unlock(seen, next)
}

// tryReadAny copies the digest and the state of the key that the slot belongs to,
// whichever key it is. It returns false if another goroutine is writing the slot.
func (s *slot) tryReadAny() (digest, words, bool) {
	at := s.at.Load()
	d, rest := digest{s.hi.Load(), s.lo.Load()}, s.rest.Load()
	return d, words{at, rest}, at&lockBit == 0 && s.at.Load() == at
}

// backOff pauses before the next attempt to read a locked slot; spins is the number of
// attempts so far. The goroutine that has the lock bit needs only a few nanoseconds,
// unless it was descheduled. Each attempt takes the cache line from that goroutine, so
// the pauses grow.
func backOff(spins int) {
	if spins > 16 {
		runtime.Gosched()
		return
	}
	for range 8 << min(spins, 4) {
		continue
	}
}
