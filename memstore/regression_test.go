package memstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// Every test in this file is a regression test for a fixed bug.

const t0 = 1_700_000_000_000_000

func bind(t testing.TB, s *Store, name string, a headgate.Algorithm, l string) headgate.Bound {
	t.Helper()
	b, err := s.Bind(headgate.Rule{Scope: name, Name: name, Limit: headgate.MustParseLimit(l), Algorithm: a})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCommitFailsAfterVersionWraps writes a slot 256 times: the version has 8 bits, so
// it is the same again.
func TestCommitFailsAfterVersionWraps(t *testing.T) {
	s := New(nil)
	g := bind(t, s, "p", headgate.FixedWindow, "100000/1h").(*slotBound)
	_, _ = g.Apply(context.Background(), t0, "k", headgate.Take, 1)
	d := g.secret.sum("k")
	sl := s.keys.shard(d).table.Load().find(d)
	seen, _ := sl.read(d) // a goroutine is descheduled here
	for range 256 {
		_, _ = g.Apply(context.Background(), t0, "k", headgate.Take, 1)
	}
	next, _ := g.step.Take(seen.state(), t0, 1)
	if sl.commit(seen, g.pack(next)) {
		got, _ := sl.read(d)
		t.Errorf("a commit 256 writes late succeeded: count is %d want 257", got.state().B)
	}
}

// TestSweepKeepsLogInUse makes room for the next entry of an expired log, which sweeps
// expired logs.
func TestSweepKeepsLogInUse(t *testing.T) {
	s := New(&Options{MaxEntries: 2})
	g := bind(t, s, "p", headgate.SlidingLog, "5/1s")
	ctx := context.Background()
	for i := range 4 {
		_, _ = g.Apply(ctx, headgate.Instant(t0+i), "a", headgate.Take, 1)
	}
	long := bind(t, s, "q", headgate.SlidingLog, "5/1h")
	_, _ = long.Apply(ctx, t0, "b", headgate.Take, 1) // the rest of the budget
	later := headgate.Instant(t0 + 2_000_000)
	admitted := 0
	for i := range 20 {
		d, err := g.Apply(ctx, later+headgate.Instant(i), "a", headgate.Take, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			admitted++
		}
	}
	if admitted != 5 {
		t.Errorf("admitted in 20 µs: %d want 5; bytes accounted for %d, allocated %d", admitted, s.logs.bytes.Load(), s.Stats().Bytes)
	}
}

// TestRestoreIntoOtherBoundsLosesNoKeys includes bounds whose shards have the same
// size.
func TestRestoreIntoOtherBoundsLosesNoKeys(t *testing.T) {
	bounds := [][2]int{{8192, 16384}, {16384, 8192}, {8192, 8192}, {500_000, 1_000_000}}
	if testing.Short() {
		bounds = bounds[:3]
	}
	for _, n := range bounds {
		s := New(&Options{MaxEntries: n[0]})
		g := bind(t, s, "p", "", "1/24h")
		keys := n[0] / 3
		for i := range keys {
			_, _ = g.Apply(context.Background(), t0, fmt.Sprint(i), headgate.Take, 1)
		}
		var b bytes.Buffer
		if err := s.SnapshotAt(&b, time.UnixMicro(t0)); err != nil {
			t.Fatal(err)
		}
		r, err := Restore(&b, &Options{MaxEntries: n[1]})
		if err != nil {
			t.Errorf("%v: %v", n, err)
			continue
		}
		g = bind(t, r, "p", "", "1/24h")
		again := 0
		for i := range keys {
			if d, _ := g.Apply(context.Background(), t0+1, fmt.Sprint(i), headgate.Take, 1); d.Allowed {
				again++
			}
		}
		if again > 0 {
			t.Errorf("%v: %d of %d exhausted keys were admitted after the restore", n, again, keys)
		}
	}
}

func TestHugeMaxBytesDoesNotReduceMaxEntries(t *testing.T) {
	for _, mb := range []int64{math.MaxInt64, 1 << 60, 1 << 58} {
		o := Options{MaxEntries: 1000, MaxBytes: mb}
		if o.Validate() != nil {
			continue
		}
		k, l := o.sizes()
		if k != 1000 || l != 1000*singleBytes {
			t.Errorf("sizes with MaxBytes %d: %d keys, %d log bytes", mb, k, l)
		}
		s := New(&o)
		g := bind(t, s, "p", "sliding_log", "5/1s")
		if _, err := g.Apply(context.Background(), t0, "x", headgate.Take, 1); err != nil {
			t.Errorf("first take of an empty store: %v", err)
		}
	}
}

func TestApplyUnknownVerbReturnsError(t *testing.T) {
	s := New(nil)
	for _, v := range []headgate.Verb{4, 5, 200} {
		for _, a := range []headgate.Algorithm{"token_bucket", "fixed_window", "sliding_log"} {
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s verb %d: panic %v", a, v, p)
					}
				}()
				d, err := bind(t, s, "p", a, "5/1h").Apply(context.Background(), t0, "k", v, 1)
				if err == nil {
					t.Errorf("%s verb %d: %+v, no error", a, v, d)
				}
			}()
		}
	}
}

func TestRestoreRejectsLongOverflowLog(t *testing.T) {
	var b bytes.Buffer
	num := func(ns ...uint64) {
		for _, n := range ns {
			_ = binary.Write(&b, binary.LittleEndian, n)
		}
	}
	b.WriteString(snapshotHeader)
	num(1, 2)
	const n = 200_000
	num(recordOverflowLog, 1, 1, t0*2, n)
	for i := range uint64(n) {
		num(t0+i, 1)
	}
	num(recordEnd)
	num(uint64(crc32.Checksum(b.Bytes(), crc32.MakeTable(crc32.Castagnoli))))
	if _, err := Restore(&b, &Options{MaxBytes: 64 << 10}); !errors.Is(err, ErrSnapshot) {
		t.Errorf("restore of an overflow log with %d entries: got %v want ErrSnapshot", n, err)
	}
}

// TestExpiredKeysDoNotPreventRelocation checks that all keys still find room after many
// keys have expired.
func TestExpiredKeysDoNotPreventRelocation(t *testing.T) {
	ctx := context.Background()
	for _, kind := range []string{"fresh", "old keys", "restored"} {
		const n = 20_000
		s := New(&Options{MaxEntries: n})
		short, long := bind(t, s, "s", "", "1/1s"), bind(t, s, "l", "", "1/24h")
		switch kind {
		case "old keys":
			for i := range 20 * n {
				_, _ = short.Apply(ctx, headgate.Instant(t0+i*100), fmt.Sprint(i), headgate.Take, 1)
			}
		case "restored":
			for i := range n / 4 {
				_, _ = long.Apply(ctx, t0+60_000_000, fmt.Sprint(i), headgate.Take, 1)
			}
			var b bytes.Buffer
			_ = s.SnapshotAt(&b, time.UnixMicro(t0+60_000_000))
			var err error
			if s, err = Restore(&b, &Options{MaxEntries: n}); err != nil {
				t.Fatal(err)
			}
			long = bind(t, s, "l", "", "1/24h")
		}
		before := s.Stats()
		first := 0
		for i := range n {
			_, _ = long.Apply(ctx, t0+60_000_000, fmt.Sprint(i), headgate.Take, 1)
			if first == 0 && s.overflowed.Load() > before.Overflowed {
				first = i
			}
		}
		st := s.Stats()
		if st.Overflowed > before.Overflowed {
			t.Errorf("%s: %d keys in a store sized for %d: %d decisions on overflow buckets, the first at key %d (before: %+v)", kind, n, n, st.Overflowed-before.Overflowed, first, before)
		}
	}
}

// TestCommitOfInstantComparesOtherFields changes the other fields of a slot 256 times at
// one instant, after which the version is the same again. A commit that changes the
// instant alone must not succeed on the state that was read before.
func TestCommitOfInstantComparesOtherFields(t *testing.T) {
	d := digest{5, 6}
	var s slot
	at := func(a, b int64) words { return pack(algo.State{A: a, B: b, C: 1}, a) }
	s.assign(d, words{}, at(10, 1))
	seen, _ := s.read(d) // a goroutine is descheduled here
	for b := range int64(256) {
		now, _ := s.read(d)
		if !s.commit(now, at(10, 2+b)) {
			t.Fatal("commit without contention: got false want true")
		}
	}
	if s.commit(seen, at(11, 1)) {
		now, _ := s.read(d)
		t.Errorf("commit of the instant alone, after 256 changes: got true and %+v want false", now.state())
	}
}

// TestCommitOfInstantIncrementsVersion changes the instant alone, to another one and to
// the first one again. A commit of the state that was read before must fail.
func TestCommitOfInstantIncrementsVersion(t *testing.T) {
	d := digest{5, 6}
	var s slot
	at := func(a int64) words { return pack(algo.State{A: a, C: 1}, a) }
	s.assign(d, words{}, at(10))
	seen, _ := s.read(d)
	for _, a := range []int64{11, 10} {
		now, _ := s.read(d)
		if !s.commit(now, at(a)) {
			t.Fatal("commit without contention: got false want true")
		}
	}
	if s.commit(seen, at(12)) {
		t.Error("commit after two changes of the instant: got true want false")
	}
}
