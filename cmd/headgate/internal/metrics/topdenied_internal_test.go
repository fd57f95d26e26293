package metrics

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// flood is a sketch and, for comparison, the exact count of each key with the same decay.
type flood struct {
	t *testing.T
	*Denials
	weight map[uint64]float64
	sums   [topShards]float64
}

func newFlood(t *testing.T) *flood {
	f := &flood{t: t, Denials: NewDenials(nil), weight: make(map[uint64]float64)}
	f.top.init(0)
	return f
}

// deny adds denials of Zipf-distributed keys at time at: few frequent keys, many rare
// ones.
func (f *flood) deny(at time.Duration, seed uint64) {
	keys := rand.NewZipf(rand.New(rand.NewPCG(seed, 0)), 1.2, 4, 1<<20)
	for range 30_000 {
		hash := keys.Uint64() * 0x9e3779b97f4a7c15
		f.top.add(int64(at), hash, "p", "", false)
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
		s := &f.top.shards[hash%topShards]
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
	for i := range f.top.shards {
		if s := &f.top.shards[i]; len(s.byHash) != topKeys || len(s.order) != topKeys {
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
	top := f.topAt(int64(halfLife*3), 1<<20)
	f.requireBounds(1)
	if !slices.IsSortedFunc(top, func(a, b TopKey) int { return cmp.Compare(b.Denials-b.Error, a.Denials-a.Error) }) || len(top) < 100 {
		t.Errorf("%d keys are not in the order of their certain denials", len(top))
	}
}

func TestConcurrentNewPolicies(t *testing.T) {
	t.Parallel()
	d := New(nil).Recorder("http")
	var all sync.WaitGroup
	begin := make(chan struct{})
	for range 8 {
		all.Go(func() {
			<-begin
			for i := range 300 {
				d.policy(fmt.Sprint(i)).shards[0].counts[Allowed].Add(1)
			}
		})
	}
	close(begin)
	all.Wait()
	for i := range 300 {
		if n := d.policy(fmt.Sprint(i)).total(Allowed); n != 8 {
			t.Errorf("policy %d was counted %d times, want 8", i, n)
		}
	}
}

func TestPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	d := New(nil).Recorder("http")
	full := make(map[string]*policy)
	for i := range maxPolicies {
		full[fmt.Sprint(i)] = &policy{}
	}
	d.policies.Store(&full)
	if known, late, later := d.policy("7"), d.policy("late"), d.policy("later"); known != full["7"] || late != later || late != d.policy(Others) {
		t.Error("policies after the first maxPolicies must be counted as others, the first must not")
	}
	if n := len(*d.policies.Load()); n != maxPolicies+1 {
		t.Errorf("%d policies are counted separately, want %d and others", n, maxPolicies)
	}
}

func TestInvalidUTF8PolicyName(t *testing.T) {
	t.Parallel()
	d := New(nil).Recorder("http")
	first := d.policy("a\xff")
	if again, proper := d.policy("a\xff"), d.policy("a_"); again != first || proper != first {
		t.Error("an invalid name must always be the same policy")
	}
}
