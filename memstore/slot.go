package memstore

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/headgate/headgate/algo"
)

// slot stores one key, its digest and its state, in 32 bytes. Two slots share a cache
// line and no slot spans two.
//
//	at   A (53 bits) · TTL, high part (2) · version (8) · locked (1)
//	rest B (30 bits) · C (30) · TTL, low part (4)
//
// A writer that changes anything except A takes the lock bit and increments the
// version. A reader that finds at unchanged has therefore read one state of one key. A
// change of A alone (a token bucket whose unit is whole microseconds) is one
// compare-and-swap.
//
// The TTL is a power of two: how long after A the state may still matter, in µs. It
// lets the store find expired slots without knowing any algorithm.
type slot struct {
	hi, lo   atomic.Uint64 // hi is 0 in a slot that was never used
	at, rest atomic.Uint64
}

const (
	lockBit    = 1
	versionOne = 1 << 1
	versions   = 0xff << 1
	// slotMoved is the value of at in a table that was replaced by a larger one.
	slotMoved = ^uint64(0)
)

// words are the two words of a state. Words that were read contain the lock bit and the
// version; words to be written contain neither.
type words struct{ at, rest uint64 }

// pack encodes a state and the instant at which it expires.
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

// equals reports whether w, as read, has the same state and TTL as next, which is to be
// written.
func (w words) equals(next words) bool { return w.withoutVersion() == next }

// withoutVersion converts w, as read, to the form in which it is written.
func (w words) withoutVersion() words { return words{at: w.at &^ (versions | lockBit), rest: w.rest} }

func (w words) state() algo.State {
	return algo.State{A: int64(w.at >> 11), B: int64(w.rest >> 34), C: int64(w.rest >> 4 & (1<<30 - 1))}
}

// expiry returns an instant at which the state is certain to have expired. It is at
// most twice as long after A as necessary.
func (w words) expiry() int64 {
	ttl := w.at>>9&3<<4 | w.rest&0xf
	if ttl == 0 {
		return int64(w.at >> 11)
	}
	return int64(w.at>>11) + 1<<(ttl-1)
}

// read copies the state of the key d. It returns false if the slot belongs to another
// key or its table was replaced.
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

// commit replaces the state that read returned. It returns false if another goroutine
// has changed the slot since.
func (s *slot) commit(seen, next words) bool {
	if next.rest == seen.rest {
		return s.at.CompareAndSwap(seen.at, next.at|seen.at&versions)
	}
	if !s.lock(seen) {
		return false
	}
	s.unlock(seen, next)
	return true
}

// lock takes the lock bit without waiting, if the slot is unchanged since it was read.
// The version wraps after 256 changes, so lock compares rest again once no other
// goroutine can write it.
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

// lockWait waits for the lock bit of the slot of the key d and takes it. The caller
// holds the shard's lock, so the slot keeps belonging to d.
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
	s.at.Store(next.at | (seen.at+versionOne)&versions)
}

// assign writes a new key and state to a locked slot and unlocks it.
func (s *slot) assign(d digest, seen, next words) {
	s.hi.Store(d.hi)
	s.lo.Store(d.lo)
	s.unlock(seen, next)
}

// tryReadAny copies the digest and state, whatever key the slot belongs to. It returns
// false while another goroutine writes the slot.
func (s *slot) tryReadAny() (digest, words, bool) {
	at := s.at.Load()
	d, rest := digest{s.hi.Load(), s.lo.Load()}, s.rest.Load()
	return d, words{at, rest}, at&lockBit == 0 && s.at.Load() == at
}

// backOff delays the next attempt to read a locked slot. The holder of the lock bit
// needs a few nanoseconds unless it was descheduled. Each attempt takes the cache line
// from the holder, so attempts become rarer.
func backOff(spins int) {
	if spins > 16 {
		runtime.Gosched()
		return
	}
	for range 8 << min(spins, 4) {
		continue
	}
}
