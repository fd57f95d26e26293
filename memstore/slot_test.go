package memstore

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/headgate/headgate/algo"
)

func TestSlotAndShardSizes(t *testing.T) {
	if got := unsafe.Sizeof(slot{}); got != slotBytes {
		t.Errorf("size of a slot: got %d want %d", got, slotBytes)
	}
	if got := unsafe.Sizeof(shard{}); got != 64 {
		t.Errorf("size of a shard: got %d want 64, a cache line of its own", got)
	}
}

func TestPackRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		s := algo.State{A: rng.Int64N(1 << (1 + rng.IntN(53))), B: rng.Int64N(1 << (1 + rng.IntN(30))), C: rng.Int64N(1 << (1 + rng.IntN(30)))}
		ttl := rng.Int64N(1 << (1 + rng.IntN(52)))
		w := pack(s, s.A+ttl)
		if got := w.state(); got != s {
			t.Fatalf("state after pack(%v, ttl %d): got %v", s, ttl, got)
		}
		if w.at&(versions|lockBit) != 0 {
			t.Fatalf("pack(%v, ttl %d): %x reaches into version or lock bit", s, ttl, w.at)
		}
		if e := w.expiry(); e < s.A+ttl || e > s.A+2*ttl {
			t.Fatalf("expiry of pack(%v, ttl %d): got A+%d want between the TTL and twice that", s, ttl, e-s.A)
		}
	}
}

func TestCommitFailsAfterConcurrentWrite(t *testing.T) {
	d := digest{5, 6}
	for name, change := range map[string]algo.State{
		"another A":         {A: 11, B: 1, C: 1},
		"same A, another B": {A: 10, B: 2, C: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var s slot
			s.assign(d, words{}, pack(algo.State{A: 10, B: 1, C: 1}, 10))
			seen, _ := s.read(d)
			mine := pack(algo.State{A: 12, B: 1, C: 1}, 12)
			if !s.commit(seen, pack(change, change.A)) {
				t.Fatal("first commit: got false want true")
			}
			if s.commit(seen, mine) {
				t.Error("commit on what was seen before: got true want false")
			}
		})
	}
}

func TestCommitFailsAfterSlotIsReassigned(t *testing.T) {
	var s slot
	w := pack(algo.State{A: 10}, 10)
	s.assign(digest{5, 6}, words{}, w)
	seen, _ := s.read(digest{5, 6})
	s.lock(seen)
	s.assign(digest{7, 8}, seen, w) // the same state: only the version differs
	if s.commit(seen, pack(algo.State{A: 11}, 11)) {
		t.Error("commit to a reassigned slot: got true want false")
	}
	if _, ok := s.read(digest{5, 6}); ok {
		t.Error("read of the key that lost its slot: got true want false")
	}
}
