package memstore

import (
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate/algo"
)

func randomDigest(rng *rand.Rand) digest { return digest{rng.Uint64(), rng.Uint64()}.nonEmpty() }

// insert allocates a slot for a key that expires at the instant until.
func insert(r *region, d digest, until, now int64) bool {
	s, seen := r.shard(d).allocate(d, now)
	if s == nil {
		return false
	}
	s.assign(d, seen, pack(algo.State{A: until}, until))
	return true
}

func TestTableGrowthKeepsAllKeys(t *testing.T) {
	for _, n := range []int{1, 7, 100, 1000, 30_000, 300_000} {
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		r := newRegion(n)
		keys := make([]digest, n)
		for i := range keys {
			keys[i] = randomDigest(rng)
			if !insert(&r, keys[i], int64(i+1), 0) {
				t.Fatalf("key %d of a region for %d found no room", i, n)
			}
		}
		for i, d := range keys {
			s := r.shard(d).table.Load().find(d)
			if s == nil {
				t.Fatalf("key %d of %d is lost", i, n)
			}
			if w, ok := s.read(d); !ok || w.state().A != int64(i+1) {
				t.Fatalf("state of key %d of %d: got %v want %d", i, n, w.state(), i+1)
			}
		}
		if got, limit := r.bytes(), int64(n)*slotBytes*100/loadPercent+int64(len(r.shards))*bucketSlots*slotBytes; got > limit {
			t.Errorf("bytes of a region for %d keys: got %d want at limit %d", n, got, limit)
		}
	}
}

func TestFullTableEvictsOnlyExpiredKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	r := newRegion(2000)
	alive := map[digest]int64{}
	for now := range int64(200_000) {
		d := randomDigest(rng)
		until := now + 1 + rng.Int64N(4000)
		if insert(&r, d, until, now) {
			alive[d] = until
		}
		if now%5000 != 0 {
			continue
		}
		for d, until := range alive {
			if until <= now {
				delete(alive, d)
			} else if r.shard(d).table.Load().find(d) == nil {
				t.Fatalf("at %d a key that expires at %d was evicted", now, until)
			}
		}
	}
	if len(alive) < 1000 {
		t.Errorf("keys held at the end: got %d want most of 2000: free slots are not used again", len(alive))
	}
}

func TestTableContainsNoDuplicateKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	r := newRegion(500)
	for now := range int64(50_000) {
		insert(&r, randomDigest(rng), now+rng.Int64N(700), now)
	}
	seen := map[digest]bool{}
	for i := range r.shards {
		for j := range r.shards[i].table.Load().slots {
			d, w, _ := r.shards[i].table.Load().slots[j].tryReadAny()
			if d.hi != 0 && seen[d] && w.expiry() > 50_000 {
				t.Fatalf("digest %v is in two slots", d)
			}
			seen[d] = true
		}
	}
}
