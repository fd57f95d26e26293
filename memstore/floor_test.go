package memstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/headgate/headgate"
)

// benchmarkSteps calls step with the digest of a random key and the time, as a decision
// begins. The keys are those of BenchmarkManyKeys, and the store is full. The difference
// between two benchmarks is the cost of what one of them does in addition.
func benchmarkSteps(b *testing.B, keys int, step func(s *slotBound, d digest, now int64)) {
	store := New(&Options{MaxEntries: keys})
	bound, err := store.Bind(headgate.Rule{Scope: "floor", Limit: headgate.MustParseLimit("1000/h burst 100000000")})
	if err != nil {
		b.Fatal(err)
	}
	rule := bound.(*slotBound)
	for i := range keys {
		if _, err := bound.Apply(b.Context(), headgate.StoreClock, "user:"+strconv.Itoa(i), headgate.Take, 1); err != nil {
			b.Fatal(err)
		}
	}
	var seed atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		x := seed.Add(1)*0x9e3779b97f4a7c15 + 1
		buf := make([]byte, 0, 32)
		for pb.Next() {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			buf = strconv.AppendUint(append(buf[:0], "user:"...), (x>>32)*uint64(keys)>>32, 10)
			step(rule, rule.secret.sum(unsafe.String(&buf[0], len(buf))), store.clock.micros())
		}
	})
}

// swapFirst is the minimum of any decision on a random key: a compare-and-swap in a table
// of the same size. It searches nothing and decides nothing.
func swapFirst(b *slotBound, d digest, now int64) {
	bucket, start := b.store.keys.shard(d).table.Load().bucket(d, false)
	at := &bucket[start].rest
	at.CompareAndSwap(at.Load(), uint64(now))
}

// swapFound is the minimum of a decision in a table with 37.7 bytes for each key: it also
// searches the key, whose slot is in one of two buckets.
func swapFound(b *slotBound, d digest, now int64) {
	if s := b.store.keys.shard(d).table.Load().find(d); s != nil { // a few keys have no slot
		s.rest.CompareAndSwap(s.rest.Load(), uint64(now))
	}
}

// takeFound also computes the next state, by the algorithm of the decision, and stores
// it. Only the result is missing: remaining units, and the times of waits.
func takeFound(b *slotBound, d digest, now int64) { _, _, _ = b.takeFast(d, now, 1) }

func BenchmarkFloorManyKeys(b *testing.B)          { benchmarkSteps(b, 100_000, swapFirst) }
func BenchmarkFloorMillionKeys(b *testing.B)       { benchmarkSteps(b, 1_000_000, swapFirst) }
func BenchmarkFloorSearchManyKeys(b *testing.B)    { benchmarkSteps(b, 100_000, swapFound) }
func BenchmarkFloorSearchMillionKeys(b *testing.B) { benchmarkSteps(b, 1_000_000, swapFound) }
func BenchmarkFloorTakeManyKeys(b *testing.B)      { benchmarkSteps(b, 100_000, takeFound) }
func BenchmarkFloorTakeMillionKeys(b *testing.B)   { benchmarkSteps(b, 1_000_000, takeFound) }
