package activity

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// flood is a sketch and, for comparison, the exact count of each key with the same decay.
type flood struct {
	t *testing.T
	*TopKeys
	weight map[uint64]float64
	sums   [topShards]float64
}

func newFlood(t *testing.T) *flood {
	return &flood{t: t, TopKeys: NewTopKeys(0), weight: make(map[uint64]float64)}
}

// deny adds denials of Zipf-distributed keys at time at: few frequent keys, many rare
// ones.
func (f *flood) deny(at time.Duration, seed uint64) {
	keys := rand.NewZipf(rand.New(rand.NewPCG(seed, 0)), 1.2, 4, 1<<20)
	for range 30_000 {
		hash := keys.Uint64() * 0x9e3779b97f4a7c15
		f.Add(int64(at), &Hit{Hash: hash, Policy: "p", Weight: 1})
		f.weight[hash]++
		f.sums[hash%topShards]++
	}
}

func (f *flood) decay() {
	for hash := range f.weight {
		f.weight[hash] /= 2
	}
	for i := range f.sums {
		f.sums[i] /= 2
	}
}

// requireBounds checks the documented bounds, up to a rounding error.
func (f *flood) requireBounds(rounded float64) {
	f.t.Helper()
	for hash, weight := range f.weight {
		s := &f.shards[hash%topShards]
		e := s.byHash[hash]
		switch {
		case e == nil && weight > f.sums[hash%topShards]/topKeys+rounded:
			f.t.Fatalf("a key with %g of %g denials is missing", weight, f.sums[hash%topShards])
		case e != nil && (float64(e.count)+rounded < weight || float64(e.count-e.error) > weight+rounded):
			f.t.Fatalf("%d denials with an error of %d, and there were %g", e.count, e.error, weight)
		case e != nil && s.order[e.index] != e:
			f.t.Fatal("the index of an entry is wrong")
		}
	}
	for i := range f.shards {
		if s := &f.shards[i]; len(s.byHash) != topKeys || len(s.order) != topKeys {
			f.t.Fatalf("shard %d has %d keys and %d entries, want %d", i, len(s.byHash), len(s.order), topKeys)
		}
	}
}

func TestSketchErrorBounds(t *testing.T) {
	t.Parallel()
	f := newFlood(t)
	f.deny(0, 1)
	f.requireBounds(0)
	f.decay()
	f.deny(halfLife*3/2, 2) // one half-life has passed
	f.requireBounds(1)
	f.decay()
	f.deny(halfLife*2, 3) // half a half-life later the second has passed
	f.requireBounds(1)
	f.decay()
	top := f.Keys(int64(halfLife * 3))
	f.requireBounds(1)
	if !slices.IsSortedFunc(top, func(a, b KeyCount) int { return cmp.Compare(b.Count-b.Error, a.Count-a.Error) }) || len(top) < 100 {
		t.Errorf("%d keys are not in the order of their certain counts", len(top))
	}
}
