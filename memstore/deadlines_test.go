package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// abandoned opens a hold of a second on each of n keys, and ends none of them early. It
// returns how many were opened.
func abandoned(t *testing.T, l *headgate.Limiter, now time.Time, n int, withID bool) (opened int) {
	t.Helper()
	for i := range n {
		opts := &headgate.HoldOptions{TTL: time.Second}
		if withID {
			opts.ID = fmt.Sprint("id ", i)
		}
		h, err := headgate.HoldAllAt(t.Context(), now, opts, headgate.Check{Limiter: l, Key: fmt.Sprint(now.Unix(), " ", i), Cost: 1})
		if err == nil && h.OK() {
			opened++
		}
	}
	return opened
}

func limiterOf(t *testing.T, s headgate.Store, a headgate.Algorithm, limits ...string) *headgate.Limiter {
	t.Helper()
	p := headgate.Policy{Name: string(a) + limits[0], Algorithm: a}
	for _, text := range limits {
		p.Limits = append(p.Limits, headgate.MustParseLimit(text))
	}
	l, err := headgate.New(s, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// heldPolicies are policies whose holds fill a store.
var heldPolicies = []struct {
	name      string
	algorithm headgate.Algorithm
	limits    []string
}{
	{"state", headgate.FixedWindow, []string{"10/1s"}},
	{"slots", "", []string{"5 concurrent"}},
	{"state and slots", "", []string{"10/1s", "5 concurrent"}},
	{"log", headgate.SlidingLog, []string{"10/1s"}},
}

// Holds that have expired leave their room to others, whatever was done in between.
func TestExpiredHoldsLeaveTheirRoom(t *testing.T) {
	t.Parallel()
	for _, c := range heldPolicies {
		for _, withID := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, id %t", c.name, withID), func(t *testing.T) {
				t.Parallel()
				s := memstore.New(&memstore.Options{MaxEntries: 2000})
				l := limiterOf(t, s, c.algorithm, c.limits...)
				full := abandoned(t, l, noon, 3000, withID)
				if full < 100 || full == 3000 {
					t.Fatalf("got %d open holds, want fewer than 3000 and more than 100", full)
				}
				for i, after := range []time.Duration{2 * time.Second, time.Hour, 300 * time.Hour} {
					if n := abandoned(t, l, noon.Add(after), full*9/10, withID); n != full*9/10 {
						t.Errorf("%v later: got %d new holds want %d", after, n, full*9/10)
					}
					most := full * len(c.limits)
					if c.algorithm == headgate.SlidingLog {
						// A log expires apart from the hold of its key. Without it,
						// the hold takes 64 bytes less, and others fit.
						most += most / 4
					}
					if st := s.Stats(); st.Holds > most {
						t.Errorf("round %d: got %d holds want at most %d", i, st.Holds, most)
					}
				}
			})
		}
	}
}

// Records of holds that have ended early leave their room after their deadlines.
func TestRecordsLeaveTheirRoom(t *testing.T) {
	t.Parallel()
	for _, c := range heldPolicies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := limiterOf(t, memstore.New(&memstore.Options{MaxEntries: 2000}), c.algorithm, c.limits...)
			for round := range 6 {
				now := noon.Add(time.Duration(round) * time.Second)
				for i := range 250 {
					h, err := headgate.HoldAllAt(t.Context(), now, &headgate.HoldOptions{ID: "id", TTL: time.Second},
						headgate.Check{Limiter: l, Key: fmt.Sprint(round, " ", i), Cost: 1})
					if err != nil {
						t.Fatalf("round %d, key %d: %v", round, i, err)
					}
					if _, err := h.CommitAt(t.Context(), now, 1); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// Expired holds take no room from the logs and the slots of other keys: each first
// request is allowed.
func TestExpiredHoldsDenyNothing(t *testing.T) {
	t.Parallel()
	for _, c := range heldPolicies {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New(&memstore.Options{MaxEntries: 2000})
			abandoned(t, limiterOf(t, s, c.algorithm, c.limits...), noon, 3000, false)
			for _, a := range []headgate.Algorithm{headgate.SlidingLog, headgate.TokenBucket} {
				l := limiterOf(t, s, a, "3/15m")
				for i := range 1500 {
					d, err := l.AllowAt(t.Context(), noon.Add(3*time.Hour), fmt.Sprint("key ", i), 1)
					if err != nil || d.Remaining != 2 {
						t.Fatalf("%s, key %d: got %+v, error %v want 2 remaining", a, i, d, err)
					}
				}
			}
		})
	}
}

// Holds that are extended, end early and expire in random order keep no memory.
func TestDeadlinesAfterExtensions(t *testing.T) {
	t.Parallel()
	s := memstore.New(&memstore.Options{MaxEntries: 2000})
	l := limiterOf(t, s, headgate.TokenBucket, "1000/1s")
	for round := range 300 {
		now := noon.Add(time.Duration(round) * time.Second)
		for i := range 20 {
			h, err := l.HoldAt(t.Context(), now, fmt.Sprint("key ", i*round%97), 1, time.Duration(1+i)*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			switch i % 3 {
			case 0:
				_, err = h.ExtendAt(t.Context(), now, time.Duration(1+(i*7)%20)*time.Second)
			case 1:
				_, err = h.CommitAt(t.Context(), now, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	later := noon.Add(time.Hour)
	if n := abandoned(t, l, later, 300, false); n != 300 {
		t.Errorf("an hour later: got %d new holds want 300", n)
	}
	if st := s.Stats(); st.Holds > 300+500 {
		t.Errorf("got %d holds want at most 800", st.Holds)
	}
}
