package memstore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

const largeLimit = "9007199254740991/24h" // 2^53 − 1

// usedStore returns a store in which every algorithm has keys at different levels, some
// of them in overflow buckets, and a key with a large count.
func usedStore(t *testing.T, entries int) *memstore.Store {
	t.Helper()
	s := memstore.New(&memstore.Options{MaxEntries: entries})
	for _, a := range names() {
		l := newLimiter(t, s, string(a), a, "7/1h")
		for i := range 200 {
			allow(t, l, start+headgate.Instant(i), fmt.Sprint(i), int64(i%8))
		}
	}
	allow(t, newLimiter(t, s, "large", headgate.FixedWindow, largeLimit), start, "k", 1<<53-3)
	return s
}

func snapshot(t *testing.T, s *memstore.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.SnapshotAt(&b, (start + 1000).Time()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRestoreKeepsAnswers(t *testing.T) {
	old := usedStore(t, 100_000)
	restored, err := memstore.Restore(bytes.NewReader(snapshot(t, old)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range names() {
		before, after := newLimiter(t, old, string(a), a, "7/1h"), newLimiter(t, restored, string(a), a, "7/1h")
		for i := range 300 {
			for _, cost := range []int64{0, 2, 1} {
				now := start + 2000 + headgate.Instant(i)*1_000_000
				got, want := allow(t, after, now, fmt.Sprint(i), cost), allow(t, before, now, fmt.Sprint(i), cost)
				if !equalDecisions(got, want) {
					t.Fatalf("%s, key %d, cost %d: got %+v want %+v", a, i, cost, got, want)
				}
			}
		}
	}
	if d := allow(t, newLimiter(t, restored, "large", headgate.FixedWindow, largeLimit), start+2000, "k", 1); d.Remaining != 1 {
		t.Errorf("a count of 2^53 - 3 before the snapshot, then 1: got %d remaining want 1", d.Remaining)
	}
}

// TestRestoreFullStore checks that the snapshot of a store with more keys than slots
// fits the same bounds again, and that every key finds its own or its shared state.
func TestRestoreFullStore(t *testing.T) {
	entries := 117 * len(names())
	old := usedStore(t, entries)
	restored, err := memstore.Restore(bytes.NewReader(snapshot(t, old)), &memstore.Options{MaxEntries: entries})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range names() {
		before, after := newLimiter(t, old, string(a), a, "7/1h"), newLimiter(t, restored, string(a), a, "7/1h")
		for i := range 200 {
			want, _ := before.PeekAt(t.Context(), (start + 2000).Time(), fmt.Sprint(i), 1)
			got, err := after.PeekAt(t.Context(), (start + 2000).Time(), fmt.Sprint(i), 1)
			if err != nil || !equalDecisions(got, want) {
				t.Errorf("%s, key %d: got %+v, %v want %+v", a, i, got, err, want)
			}
		}
	}
}

func TestSnapshotOmitsExpiredKeys(t *testing.T) {
	s := usedStore(t, 100_000)
	var later bytes.Buffer
	if err := s.SnapshotAt(&later, (start + 48*3_600_000_000).Time()); err != nil {
		t.Fatal(err)
	}
	if got, now := later.Len(), len(snapshot(t, s)); got*10 > now {
		t.Errorf("bytes of a snapshot two days later: got %d, of %d with all keys; want far fewer", got, now)
	}
}

func TestRestoreRejectsCorruptSnapshot(t *testing.T) {
	whole := snapshot(t, usedStore(t, 1000))
	for _, cut := range []int{0, 1, 28, 29, 40, 61, 100, len(whole) - 9, len(whole) - 1} {
		if _, err := memstore.Restore(bytes.NewReader(whole[:cut]), nil); !errors.Is(err, memstore.ErrSnapshot) {
			t.Errorf("first %d of %d bytes: got %v want ErrSnapshot", cut, len(whole), err)
		}
	}
	for at := 29; at < len(whole); at += atLeast(370, 37) {
		broken := bytes.Clone(whole)
		broken[at] ^= 0x10
		if _, err := memstore.Restore(bytes.NewReader(broken), &memstore.Options{MaxEntries: 5000}); err == nil {
			t.Errorf("byte %d changed: got nil want an error", at)
		}
	}
	if _, err := memstore.Restore(iotest.ErrReader(io.ErrClosedPipe), nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("reader that fails: got %v want its error", err)
	}
}

func TestRestoreIntoSmallStoreReturnsErrStoreFull(t *testing.T) {
	whole := snapshot(t, usedStore(t, 100_000))
	if _, err := memstore.Restore(bytes.NewReader(whole), &memstore.Options{MaxEntries: 50}); !errors.Is(err, headgate.ErrStoreFull) {
		t.Errorf("restore into a small store: got %v want ErrStoreFull", err)
	}
}

func TestSnapshotReturnsWriteError(t *testing.T) {
	err := usedStore(t, 1000).Snapshot(failingWriter{})
	if !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("writer that fails: got %v want its error", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestClosedStoreReturnsErrClosed(t *testing.T) {
	for _, a := range names() {
		s := memstore.New(nil)
		l := newLimiter(t, s, "p", a, "1/1s")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("%s: Allow on a closed store: got %v want ErrClosed", a, err)
		}
		if _, err := headgate.AllowAll(t.Context(), headgate.Check{Limiter: l, Key: "k", Cost: 1}); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("%s: AllowAll on a closed store: got %v want ErrClosed", a, err)
		}
	}
}

// TestSnapshotAtInvalidTime: a time outside the accepted range is an error, because the
// snapshot would keep or drop every key.
func TestSnapshotAtInvalidTime(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Unix(1<<62, 0), time.Date(2156, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if err := s.SnapshotAt(io.Discard, at); !errors.Is(err, headgate.ErrInvalidInstant) {
			t.Errorf("%v: got error %v want ErrInvalidInstant", at, err)
		}
	}
}

// TestRestoreRejectsImpossibleLogs writes snapshots with valid checksums and with logs
// that no sequence of requests can produce.
func TestRestoreRejectsImpossibleLogs(t *testing.T) {
	const first, later, expires = int64(start), int64(start + 10), int64(start + 3_600_000_000)
	latest := int64(headgate.MaxInstant)
	for _, c := range []struct {
		name    string
		records [][]int64 // after the digest: the expiry, the number of entries, and the entries
		valid   bool
	}{
		{"a log", [][]int64{{expires, 2, first, 3, later, 2}}, true},
		{"an empty log", [][]int64{{expires, 0}}, true},
		{"the latest instant", [][]int64{{latest + 1000, 1, latest, 1}}, true},
		{"a negative number of units", [][]int64{{expires, 1, first, -1000}}, false},
		{"no units", [][]int64{{expires, 2, first, 3, later, 0}}, false},
		{"more units than any limit", [][]int64{{expires, 2, first, headgate.MaxUnits, later, 1}}, false},
		{"units that overflow", [][]int64{{expires, 2, first, 1, later, 1<<63 - 1}}, false},
		{"instants in reverse order", [][]int64{{expires, 2, later, 3, first, 2}}, false},
		{"an instant twice", [][]int64{{expires, 2, first, 3, first, 2}}, false},
		{"a negative instant", [][]int64{{expires, 1, -5, 1}}, false},
		{"an instant that is too late", [][]int64{{latest + 1000, 1, latest + 1, 1}}, false},
		{"expired before its newest entry", [][]int64{{later, 2, first, 3, later, 2}}, false},
		{"no expiry", [][]int64{{1<<63 - 1, 1, first, 1}}, false},
		{"a key twice", [][]int64{{expires, 1, first, 3}, {expires, 1, first, 1}}, false},
	} {
		for kind, name := range map[int64]string{4: "log", 5: "overflow log"} {
			var body []int64
			for _, r := range c.records {
				body = append(body, append([]int64{kind, 7, 8}, r...)...)
			}
			_, err := memstore.Restore(bytes.NewReader(snapshotOf(body)), nil)
			if c.valid && err != nil || !c.valid && !errors.Is(err, memstore.ErrSnapshot) {
				t.Errorf("%s, %s: got %v want ErrSnapshot: %v", name, c.name, err, !c.valid)
			}
		}
	}
}

// snapshotOf returns a snapshot with the given numbers as its records.
func snapshotOf(records []int64) []byte {
	text := []byte("headgate memstore snapshot 1\n")
	for _, n := range append(append([]int64{1, 2}, records...), 0) {
		text = binary.LittleEndian.AppendUint64(text, uint64(n))
	}
	sum := crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))
	return binary.LittleEndian.AppendUint64(text, uint64(sum))
}
