package memstore

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/headgate/headgate"
)

func bindLog(t testing.TB, s *Store, limit string) *logBound {
	t.Helper()
	b, err := s.Bind(headgate.Rule{Scope: "log", Algorithm: headgate.SlidingLog, Limit: headgate.MustParseLimit(limit)})
	if err != nil {
		t.Fatal(err)
	}
	return b.(*logBound)
}

func apply(t testing.TB, b *logBound, now headgate.Instant, key string, v headgate.Verb, cost int64) headgate.Decision {
	t.Helper()
	d, err := b.Apply(t.Context(), now, key, v, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkLogBytes requires that the budget is charged for exactly what is stored.
func checkLogBytes(t *testing.T, s *Store) {
	t.Helper()
	want := int64(0)
	for i := range s.logs.shards {
		sh := &s.logs.shards[i]
		want += int64(len(sh.singles)) * singleBytes
		for d, k := range sh.keys {
			want += logKeyBytes + int64(max(firstEntries, k.log.Cap()))*logEntryBytes
			if _, twice := sh.singles[d]; twice || k.isSingle {
				t.Fatal("a log is stored as a single and in keys")
			}
		}
	}
	if got := s.logs.bytes.Load(); got != want {
		t.Errorf("bytes charged to the budget: got %d want %d", got, want)
	}
}

// TestKeysUsedOnceFitInTheStore uses as many keys as the store is sized for once.
func TestKeysUsedOnceFitInTheStore(t *testing.T) {
	const n = 20_000
	s := New(&Options{MaxEntries: n})
	b := bindLog(t, s, "5/1h")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		if d := apply(t, b, 1e15, fmt.Sprint(i), headgate.Take, 1); !d.Allowed || d.Remaining != 4 {
			t.Fatalf("request %d: got %+v want allowed, 4 remaining", i, d)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if st := s.Stats(); st.Overflowed != 0 || st.Keys != n || st.LogEntries != n || st.Bytes < n*singleBytes {
		t.Errorf("got %+v want %d keys with one entry each and no overflow", st, n)
	}
	if got := int64(after.HeapAlloc-before.HeapAlloc) / n; got > 80 {
		t.Errorf("memory of a key used once: got %d bytes want at most 80", got)
	}
	checkLogBytes(t, s)
}

// TestLogChangesItsForm spends, refunds and resets, so that a log gets a second entry and
// loses it again, and checks the decisions and the memory in use at every step.
func TestLogChangesItsForm(t *testing.T) {
	s := New(&Options{MaxEntries: 100})
	b := bindLog(t, s, "5/1h")
	for i, step := range []struct {
		at        headgate.Instant
		verb      headgate.Verb
		cost      int64
		remaining int64
		singles   int
		keys      int
	}{
		{0, headgate.Take, 1, 4, 1, 0},
		{0, headgate.Take, 1, 3, 1, 0}, // the same instant
		{1, headgate.Refund, 1, 4, 1, 0},
		{1, headgate.Refund, 1, 5, 0, 0},
		{2, headgate.Take, 2, 3, 1, 0},
		{3, headgate.Peek, 1, 3, 1, 0},
		{4, headgate.Take, 6, 3, 1, 0}, // denied
		{4, headgate.Take, 1, 2, 0, 1}, // a second entry
		{5, headgate.Reset, 0, 5, 0, 0},
		{6, headgate.Take, 1, 4, 1, 0},
		{6 + 3_600_000_000, headgate.Take, 1, 4, 1, 0}, // the first entry has aged out
		{7 + 3_600_000_000, headgate.Reset, 0, 5, 0, 0},
	} {
		d := apply(t, b, 1e15+step.at, "k", step.verb, step.cost)
		if n := s.logs.stats(); d.Remaining != step.remaining || n.singles != step.singles || n.keys != step.keys {
			t.Errorf("step %d: got %d remaining, %+v want %+v", i+1, d.Remaining, n, step)
		}
		checkLogBytes(t, s)
	}
}

// TestDeniedTransactionKeepsNoLog denies a request because of its second limit. The log
// that was created for the first limit must not stay.
func TestDeniedTransactionKeepsNoLog(t *testing.T) {
	s := New(&Options{MaxEntries: 100})
	first, second := bindLog(t, s, "5/1h"), bindLog(t, s, "1/1h")
	ops := []headgate.Op{{Bound: first, Key: "a", Cost: 1}, {Bound: second, Key: "b", Cost: 2}}
	decisions := make([]headgate.Decision, 2)
	if err := s.ApplyAll(t.Context(), 1e15, ops, false, decisions); err != nil || decisions[1].Allowed {
		t.Fatalf("got %+v, %v want denied", decisions, err)
	}
	if n := s.logs.stats(); n != (logStats{}) {
		t.Errorf("stored logs: got %+v want none", n)
	}
	checkLogBytes(t, s)
}

// TestFullLogRegionAddsToNewestEntry has no room for a second entry.
func TestFullLogRegionAddsToNewestEntry(t *testing.T) {
	s := New(&Options{MaxEntries: 1})
	b := bindLog(t, s, "5/1h")
	apply(t, b, 1e15, "k", headgate.Take, 1)
	if d := apply(t, b, 1e15+1000, "k", headgate.Take, 1); d.Remaining != 3 || d.ResetAfter.Hours() != 1 {
		t.Errorf("got %+v want 3 remaining, reset in 1h: both units count from the second request on", d)
	}
	checkLogBytes(t, s)
}

func TestSingleKeepsWhatIsPacked(t *testing.T) {
	const last = int64(headgate.MaxInstant)
	for _, want := range [][3]int64{{0, 0, 1}, {0, headgate.MaxUnits, last}, {last, 1, last + 1}, {5, 7, 5 + ttlStep}, {5, 7, 6 + ttlStep}} {
		s := newSingle(want[0], want[1], want[2])
		if late := s.resetAt() - want[2]; s.at != want[0] || s.units() != want[1] || late < 0 || late >= ttlStep {
			t.Errorf("%v: got at %d, %d units, expiry %d", want, s.at, s.units(), s.resetAt())
		}
	}
}

func TestSnapshotContainsLogsWithOneEntry(t *testing.T) {
	s := New(&Options{MaxEntries: 100})
	apply(t, bindLog(t, s, "5/1h"), 1e15, "k", headgate.Take, 3)
	var file bytes.Buffer
	if err := s.snapshot(&file, 1e15); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(&file, &Options{MaxEntries: 100})
	if err != nil {
		t.Fatal(err)
	}
	if d := apply(t, bindLog(t, restored, "5/1h"), 1e15, "k", headgate.Peek, 1); d.Remaining != 2 {
		t.Errorf("after a restart: got %+v want 2 remaining", d)
	}
	if n := restored.logs.stats(); n.singles != 1 || n.keys != 0 {
		t.Errorf("got %+v want a log with one entry", n)
	}
	checkLogBytes(t, restored)
}
