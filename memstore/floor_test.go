package memstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"unsafe"
)

// benchmarkFloor measures the minimum cost of a decision on a random key: the hash of the
// key, the clock, and a compare-and-swap in a table of the same size as the store's. It
// searches no bucket and decides nothing. The keys are those of BenchmarkManyKeys.
func benchmarkFloor(b *testing.B, keys int) {
	s, shared := New(&Options{MaxEntries: keys}), slab{}
	t := tableOf(shared.part(0, 1, roundUp(keys*100/loadPercent)))
	for i := range t.slots {
		t.slots[i].at.Store(1) // maps the memory
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
			now := uint64(s.clock.micros())
			bucket, start := t.bucket(s.secret.sum(unsafe.String(&buf[0], len(buf))), false)
			at := &bucket[start].at
			at.CompareAndSwap(at.Load(), now)
		}
	})
}

func BenchmarkFloorManyKeys(b *testing.B)    { benchmarkFloor(b, 100_000) }
func BenchmarkFloorMillionKeys(b *testing.B) { benchmarkFloor(b, 1_000_000) }
