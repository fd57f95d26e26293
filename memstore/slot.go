package memstore

import (
	"math/bits"
	"runtime"
	"sync/atomic"

	"github.com/headgate/headgate/algo"
)

// slot is one key: its digest and its state, 32 bytes, so that two share a cache line and none spans two.
//
//	at   A (53 bits) · life, high part (2) · version (8) · locked (1)
//	rest B (30 bits) · C (30) · life, low part (4)
//
// Whoever writes anything but A holds the lock bit and leaves another version, so a reader that finds at as it was has read
// one state of one key. A change of A alone (a token bucket whose unit is whole microseconds) is one compare-and-swap.
//
// life says, as a power of two, how long after A the state may still matter. It lets the store tell what is as if never used
// without knowing any algorithm.
type slot struct {
	hi, lo   atomic.Uint64 // hi is 0 in a slot that never held a key
	at, rest atomic.Uint64
}

const (
	lockBit    = 1
	versionOne = 1 << 1
	versions   = 0xff << 1
	moved      = ^uint64(0) // at in a table that was replaced by a larger one
)

// words are the two words of a state, as read or to be written; at is without lock bit and version when it is to be written.
type words struct{ at, rest uint64 }

// pack holds a state and the instant at which it is as if never used.
func pack(s algo.State, resetAt int64) words {
	life := uint64(0)
	if resetAt > s.A {
		life = 1 + uint64(bits.Len64(uint64(resetAt-s.A-1)))
	}
	return words{
		at:   uint64(s.A)<<11 | life>>4<<9,
		rest: uint64(s.B)<<34 | uint64(s.C)<<4 | life&0xf,
	}
}

// holds reports whether w, as read, is next, to be written: the same state, known to matter for the same time.
func (w words) holds(next words) bool { return w.bare() == next }

// bare is w, as read, in the form in which it is to be written.
func (w words) bare() words { return words{at: w.at &^ (versions | lockBit), rest: w.rest} }

func (w words) state() algo.State {
	return algo.State{A: int64(w.at >> 11), B: int64(w.rest >> 34), C: int64(w.rest >> 4 & (1<<30 - 1))}
}

// expiry is an instant at which the state is sure to be as if never used: at most twice as long after A as need be.
func (w words) expiry() int64 {
	life := w.at>>9&3<<4 | w.rest&0xf
	if life == 0 {
		return int64(w.at >> 11)
	}
	return int64(w.at>>11) + 1<<(life-1)
}

// read copies the state of the key d. It is false when the slot holds another key by now, or its table was replaced.
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
		} else if at == moved {
			return words{}, false
		}
		pause(spins)
	}
}

// commit replaces the state that read gave, unless somebody else was faster.
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

// lock takes the lock bit of a slot as it was seen, without waiting. The version comes round after 256 changes, so what it
// guards is compared too, now that nobody else can write it.
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

// hold waits for the lock bit of the slot of the key d and takes it. The shard's lock is held, so the slot stays d's.
func (s *slot) hold(d digest) words {
	for {
		if seen, ok := s.read(d); ok && s.lock(seen) {
			return seen
		}
	}
}

// unlock writes the state of a locked slot and lets go.
func (s *slot) unlock(seen, next words) {
	s.rest.Store(next.rest)
	s.at.Store(next.at | (seen.at+versionOne)&versions)
}

// assign gives a locked slot to another key.
func (s *slot) assign(d digest, seen, next words) {
	s.hi.Store(d.hi)
	s.lo.Store(d.lo)
	s.unlock(seen, next)
}

// peek copies the state, whatever key it belongs to. It is false while somebody writes.
func (s *slot) peek() (digest, words, bool) {
	at := s.at.Load()
	d, rest := digest{s.hi.Load(), s.lo.Load()}, s.rest.Load()
	return d, words{at, rest}, at&lockBit == 0 && s.at.Load() == at
}

// pause lets the holder of a lock bit finish: a few nanoseconds, unless it was taken off its processor. It looks away for a while,
// since every look takes the cache line from the holder.
func pause(spins int) {
	if spins > 16 {
		runtime.Gosched()
		return
	}
	for range 8 << min(spins, 4) {
		continue
	}
}
