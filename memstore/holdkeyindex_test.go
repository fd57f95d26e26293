package memstore

import (
	"math/rand/v2"
	"testing"
)

// TestHoldKeyIndexEqualsMap compares the index with a map. Few different hashes make long
// runs of keys, which also wrap around at the end of the table.
func TestHoldKeyIndexEqualsMap(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		x, want := holdKeyIndex{}, map[digest]*heldKey{}
		for range 400 {
			d := digest{hi: 1 + r.Uint64N(6), lo: r.Uint64N(12) - 6}
			if got := x.get(d); got != want[d] {
				t.Fatalf("%v: got %p want %p", d, got, want[d])
			}
			if want[d] != nil && r.Uint64N(2) == 0 {
				x.remove(d)
				delete(want, d)
			} else if want[d] == nil {
				want[d] = &heldKey{due: due{digest: d}}
				x.add(want[d])
			}
		}
		found := 0
		for k := range x.all {
			if found++; want[k.digest] != k {
				t.Fatalf("all: got %v, which was removed", k.digest)
			}
		}
		if found != len(want) || x.count != len(want) {
			t.Fatalf("got %d keys and a count of %d want %d", found, x.count, len(want))
		}
	}
}
