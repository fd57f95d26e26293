package memstore

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// heapBytes returns the memory of the objects that are in use.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The memory that is counted for holds and for their records is at least what they need,
// and at most twice as much.
func TestMemoryOfHolds(t *testing.T) { // not parallel: it measures the memory of the process
	for _, c := range []struct {
		name        string
		keys, holds int
		id, commit  bool
	}{
		{"many holds of a key", 1, 20_000, false, false},
		{"many holds of some keys", 20, 900, false, false},
		{"a few holds of many keys", 5000, 7, false, false},
		{"one hold of each key", 50_000, 1, false, false},
		{"one hold with id of each key", 50_000, 1, true, false},
		{"one record of each key", 50_000, 1, true, true},
		{"many records of some keys", 20, 900, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(nil)
			l, err := headgate.New(s, headgate.Policy{
				Limits: []headgate.Limit{headgate.MustParseLimit("1000000/1s")}, Holds: headgate.HoldSettings{MaxOpen: 100_000},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			for key := range c.keys { // so that the table of slots is as large before
				if _, err := l.AllowAt(t.Context(), now, strconv.Itoa(key), 1); err != nil {
					t.Fatal(err)
				}
			}
			before := heapBytes()
			for i := range c.holds {
				opts := &headgate.HoldOptions{TTL: time.Minute}
				if c.id {
					opts.ID = strconv.Itoa(i)
				}
				for key := range c.keys {
					h, err := headgate.HoldAllAt(t.Context(), now, opts, headgate.Check{Limiter: l, Key: strconv.Itoa(key), Cost: 1})
					if err == nil && c.commit {
						_, err = h.CommitAt(t.Context(), now, 1)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			got, counted := heapBytes()-before, s.logs.bytes.Load()
			n := float64(c.keys * c.holds)
			t.Logf("%.1f bytes are counted for each hold, and it needs %.1f", float64(counted)/n, float64(got)/n)
			const rest = 64 << 10 // tables of the shards
			if got > counted+rest || counted > 2*got+rest {
				t.Errorf("%d bytes are counted want %d, or up to twice as much", counted, got)
			}
			if _, bytes := s.holds.stats(); bytes != counted {
				t.Errorf("got %d bytes in Stats want %d", bytes, counted)
			}
			runtime.KeepAlive(s)
		})
	}
}

// When a hold ends, the memory in use does not rise, so a full store never prevents it.
func TestEndFreesMemory(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "id"} {
		s := New(nil)
		l, err := headgate.New(s, headgate.MustPolicy("1000/1h"), nil)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		var holds []*headgate.Hold
		for i := range 100 {
			opts := &headgate.HoldOptions{TTL: time.Minute}
			if id != "" {
				opts.ID = id + strconv.Itoa(i)
			}
			h, err := headgate.HoldAllAt(t.Context(), now, opts, headgate.Check{Limiter: l, Key: strconv.Itoa(i % 7), Cost: 1})
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		for i, h := range holds {
			before := s.logs.bytes.Load()
			if _, err := h.CommitAt(t.Context(), now, 0); err != nil {
				t.Fatal(err)
			}
			if got := s.logs.bytes.Load(); got >= before {
				t.Errorf("id %q, hold %d: got %d bytes in use want fewer than %d", id, i, got, before)
			}
		}
		for i := range s.holds.shards {
			s.dropExpired(&s.holds.shards[i], nil, now.Add(time.Hour).UnixMicro(), nil, 1<<30, unlimited)
		}
		if got := s.logs.bytes.Load(); got != 0 {
			t.Errorf("id %q, after the deadlines: got %d bytes in use want 0", id, got)
		}
	}
}

// The list of a key's holds loses memory when most of them have ended or expired.
func TestMemoryAfterManyHolds(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		s := New(nil)
		l := limitedTo(t, s, headgate.TokenBucket)
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		var holds []*headgate.Hold
		for i := range 1000 {
			h, err := l.HoldAt(t.Context(), now, "key", 1, time.Duration(1+i/995)*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		for i := 0; commit && i < 995; i++ {
			if _, err := holds[i].CommitAt(t.Context(), now, 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.AllowAt(t.Context(), now.Add(time.Minute), "key", 1); err != nil {
			t.Fatal(err)
		}
		for i := range s.holds.shards {
			for k := range s.holds.shards[i].keys.all {
				if got := k.ledger.Holds; len(got) != 5 || cap(got) > 16 {
					t.Errorf("commit %t: got %d holds in room for %d want 5 and at most 16", commit, len(got), cap(got))
				}
			}
		}
	}
}
