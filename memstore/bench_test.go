package memstore_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func benchmarkKeys(b *testing.B, keys int, limit string) {
	benchmarkStore(b, memstore.New(&memstore.Options{MaxEntries: keys}), keys, limit)
}

func benchmarkStore(b *testing.B, s *memstore.Store, keys int, limit string) {
	ctx := context.Background()
	l, err := headgate.New(s, headgate.MustPolicy(limit), nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range keys {
		l.Allow(ctx, "user:"+strconv.Itoa(i))
	}
	var seed atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	begin := processorTime(b)
	defer func() { b.ReportMetric(float64(processorTime(b)-begin)/float64(b.N), "cpu-ns/op") }()
	b.RunParallel(func(pb *testing.PB) {
		x := seed.Add(1)*0x9e3779b97f4a7c15 + 1
		buf := make([]byte, 0, 32)
		for pb.Next() {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			buf = strconv.AppendUint(append(buf[:0], "user:"...), (x>>32)*uint64(keys)>>32, 10)
			l.Allow(ctx, unsafe.String(&buf[0], len(buf)))
		}
	})
}

// One unit of the first limit takes a whole number of microseconds; one unit of the
// second does not. Keys stay partly spent, so they keep their slots.
const whole, fraction = "1000/h burst 100000000", "7000/h burst 100000000"

func BenchmarkOneKey(b *testing.B)         { benchmarkKeys(b, 1, whole) }
func BenchmarkOneKeyFraction(b *testing.B) { benchmarkKeys(b, 1, fraction) }
func BenchmarkManyKeys(b *testing.B)       { benchmarkKeys(b, 100_000, whole) }
func BenchmarkMillionKeys(b *testing.B)    { benchmarkKeys(b, 1_000_000, whole) }

// BenchmarkOpenMillionKeys opens a folder with the state of a million keys, after a
// crash: with their image, and with changes of all of them that were written
// afterwards.
func BenchmarkOpenMillionKeys(b *testing.B) {
	folder := b.TempDir()
	s, err := memstore.Open(folder, nil)
	if err != nil {
		b.Fatal(err)
	}
	l := newLimiter(b, s, "p", headgate.TokenBucket, "10/24h")
	for range 2 {
		for i := range 1_000_000 {
			_, _ = l.Allow(b.Context(), strconv.Itoa(i))
		}
		syncNow(b, s)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := memstore.Open(folder, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		r := s.Folder()
		if r.Restored.Keys < 990_000 { // other keys may share overflow buckets
			b.Fatalf("%d keys", r.Restored.Keys)
		}
		b.ReportMetric(float64(r.Bytes)/1e6, "MB")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// benchmarkFolder is benchmarkKeys with a store whose state is saved every 100 ms.
func benchmarkFolder(b *testing.B, keys int, limit string) {
	benchmarkStore(b, openFolder(b, b.TempDir(), &memstore.FolderOptions{Options: memstore.Options{MaxEntries: keys}}), keys, limit)
}

func BenchmarkFolderOneKey(b *testing.B)         { benchmarkFolder(b, 1, whole) }
func BenchmarkFolderOneKeyFraction(b *testing.B) { benchmarkFolder(b, 1, fraction) }
func BenchmarkFolderManyKeys(b *testing.B)       { benchmarkFolder(b, 100_000, whole) }
func BenchmarkFolderMillionKeys(b *testing.B)    { benchmarkFolder(b, 1_000_000, whole) }

func BenchmarkHoldCommit(b *testing.B) { benchmarkHoldCommit(b, memstore.New(nil)) }

func BenchmarkFolderHoldCommit(b *testing.B) { benchmarkHoldCommit(b, openFolder(b, b.TempDir(), nil)) }

func benchmarkHoldCommit(b *testing.B, s *memstore.Store) {
	l, err := headgate.New(s, headgate.MustPolicy("1000000000/s"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		h, err := l.Hold(b.Context(), "key", 5, time.Minute)
		if err != nil || !h.OK() {
			b.Fatal(h, err)
		}
		if _, err := h.Commit(b.Context(), 3); err != nil {
			b.Fatal(err)
		}
	}
}
