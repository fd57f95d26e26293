package memstore

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// checkDue checks that every key with holds or records is in the heap of its shard, with
// an instant that is not after its earliest deadline.
func checkDue(t *testing.T, s *Store) {
	t.Helper()
	for i := range s.holds.shards {
		sh, want := &s.holds.shards[i], map[*due]int64{}
		for k := range sh.keys.all {
			isRestored := k.rule == nil && k.log == nil // dropRestored has left out what has expired
			if isRestored && k.place == 0 && k.restored.isLog {
				continue
			}
			want[&k.due] = math.MaxInt64
			for j := 0; j < len(k.ledger.Holds) && !isRestored; j++ {
				want[&k.due] = min(want[&k.due], k.ledger.Holds[j].Deadline)
			}
		}
		for _, e := range sh.ended {
			if len(e.records) > 0 {
				want[&e.due] = e.records[0].Deadline
			} else if sh.keys.get(e.digest) == nil {
				t.Errorf("a key without records and holds was not removed")
			}
		}
		if len(sh.due) != len(want) {
			t.Fatalf("got %d keys in the heap want %d", len(sh.due), len(want))
		}
		for j, e := range sh.due {
			if at, ok := want[e]; !ok || e.at > at || e.place != j+1 || sh.due[(j-1)/2].at > e.at || sh.next.Load() > e.at {
				t.Fatalf("entry %d: got %+v want at most %d, at its place", j, e, at)
			}
		}
	}
}

// After random operations, and after a start with other bounds, each key is due by its
// earliest deadline, and only the keys that have expired are removed.
func TestDueAfterRandomOperations(t *testing.T) {
	t.Parallel()
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog, headgate.Concurrency} {
		folder, now, open := t.TempDir(), time.Now(), []*headgate.Hold{}
		for round := range 3 {
			s, err := Open(folder, &FolderOptions{Options: Options{MaxEntries: 4000 * (1 + round%2)}, Sync: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			checkDue(t, s)
			l := limitedTo(t, s, a)
			r := rand.New(rand.NewPCG(uint64(round), 1))
			for i := range 600 {
				now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
				switch n := r.IntN(10); {
				case n < 6 || len(open) == 0:
					opts := &headgate.HoldOptions{TTL: time.Duration(1+r.IntN(20)) * time.Second}
					if r.IntN(2) == 0 {
						opts.ID = strconv.Itoa(1000*round + i)
					}
					h, err := headgate.HoldAllAt(t.Context(), now, opts, headgate.Check{Limiter: l, Key: strconv.Itoa(r.IntN(20)), Cost: 1})
					if err != nil {
						t.Fatal(err)
					}
					if round == 0 && h.OK() {
						open = append(open, h)
					}
				case n < 8 && round == 0: // the hold may have expired
					_, _ = open[r.IntN(len(open))].CommitAt(t.Context(), now, 1)
				case round == 0:
					_, _ = open[r.IntN(len(open))].ExtendAt(t.Context(), now, time.Duration(1+r.IntN(20))*time.Second)
				}
				if i%10 == 0 {
					dropAll(s, now)
				}
				checkDue(t, s)
			}
			if round == 2 {
				dropAll(s, now.Add(time.Hour))
				if n, _ := s.holds.stats(); n != 0 {
					t.Errorf("%s: got %d holds after their deadlines want 0", a, n)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func limitedTo(t *testing.T, s *Store, a headgate.Algorithm) *headgate.Limiter {
	limit := "1000/1s"
	if a == headgate.Concurrency {
		limit = "1000 concurrent"
	}
	l, err := headgate.New(s, headgate.Policy{Name: "p", Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dropAll removes all holds and records that have expired.
func dropAll(s *Store, now time.Time) {
	for i := range s.holds.shards {
		sh := &s.holds.shards[i]
		sh.mu.Lock()
		s.dropExpired(sh, nil, now.UnixMicro(), nil, math.MaxInt, unlimited)
		sh.mu.Unlock()
	}
}
