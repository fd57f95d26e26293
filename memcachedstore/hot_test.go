package memcachedstore

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/internal/testserver"
)

const patience = 20 * time.Second

// contend has callers of several stores, as of several processes, take from one key at a frozen instant, and returns how much was
// admitted. No call may fail.
func contend(t *testing.T, server string, o Options, processes, callers, takes int, limit string) int64 {
	t.Helper()
	var admitted atomic.Int64
	var all sync.WaitGroup
	begin := make(chan struct{})
	for range processes {
		b := mustBind(t, mustNew(t, &o, server), t.Name(), "", limit)
		for range callers {
			all.Go(func() {
				<-begin
				for range takes {
					d, err := b.Apply(t.Context(), start, "key", headgate.Take, 1)
					if err != nil {
						t.Error(err)
						return
					}
					if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
	}
	close(begin)
	all.Wait()
	return admitted.Load()
}

// T1, T34: no error, however many callers one key has, and exactly the limit is admitted.
func TestHotKey(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, c := range []struct {
		name                       string
		opts                       Options
		processes, callers, rounds int
	}{
		{"256 callers of one process", Options{}, 1, 256, 20},
		{"256 callers of 8 processes", Options{}, 8, 32, 20},
		{"64 callers of one process that are not joined", Options{DisableJoin: true, MaxTries: 1000}, 1, 64, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Timeout = patience
			asked := c.processes * c.callers * c.rounds
			limit := asked / 2
			if got := contend(t, server.Addr(), c.opts, c.processes, c.callers, c.rounds, fmt.Sprintf("%d/1h", limit)); got != int64(limit) {
				t.Errorf("%d takes of %d: got %d admitted", asked, limit, got)
			}
		})
	}
}

// Callers of one key are joined: 256 of them need far fewer requests than calls.
func TestJoinedCallersShareRoundTrips(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	var sent atomic.Int64
	s := tapped(t, &Options{Timeout: patience}, server.Addr(), func(string, string) { sent.Add(1) })
	b := mustBind(t, s, "rule", "", "1000000/1h")
	var all sync.WaitGroup
	for range 256 {
		all.Go(func() {
			for range 20 {
				mustTake(t, b, start, "key", 1)
			}
		})
	}
	all.Wait()
	if got := remaining(t, b, start, "key"); got != 1_000_000-256*20 {
		t.Errorf("got %d remaining want %d", got, 1_000_000-256*20)
	}
	if got := sent.Load(); got > 256*20/4 {
		t.Errorf("%d calls sent %d requests, want at most a quarter of them", 256*20, got)
	}
}

// The same trace gives the same answers, whatever is joined or gathered.
func TestSwitchesChangeNoAnswer(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, a := range everyAlgorithm() {
		seed := rand.Uint64()
		var answers [][]headgate.Decision
		for i, o := range []Options{{}, {DisableJoin: true}, {MaxConns: 1}} {
			o.Namespace, o.Timeout = fmt.Sprint(i), patience
			answers = append(answers, trace(t, mustNew(t, &o, server.Addr()), a, seed))
		}
		for i, other := range answers[1:] {
			for n := range other {
				if fmt.Sprint(other[n]) != fmt.Sprint(answers[0][n]) {
					t.Fatalf("%s, seed %d, options %d, step %d: got %+v want %+v", a, seed, i+1, n, other[n], answers[0][n])
				}
			}
		}
	}
}

// trace plays random requests, on a few keys at a time that are asked at once, and returns the answers key by key.
func trace(t *testing.T, s *Store, a headgate.Algorithm, seed uint64) []headgate.Decision {
	const keys, steps = 4, 100
	b := mustBind(t, s, t.Name(), a, "10/1s")
	answers := make([]headgate.Decision, keys*steps)
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() {
			random, at := rand.New(rand.NewPCG(seed, uint64(k))), start
			for i := range steps {
				at += headgate.Instant(random.Int64N(300_000))
				verb, cost := headgate.Take, random.Int64N(5)
				if random.IntN(5) == 0 {
					verb = headgate.Verb(random.IntN(4))
				}
				d, err := b.Apply(t.Context(), at, fmt.Sprint("key ", k), verb, cost)
				if err != nil {
					t.Error(err)
					return
				}
				answers[k*steps+i] = d
			}
		})
	}
	all.Wait()
	return answers
}

// Joined callers come in order: each answer is that of the callers before it and its own.
func TestJoinedAnswersAreThoseOfOneAfterAnother(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	b := mustBind(t, mustNew(t, &Options{Timeout: patience}, server.Addr()), "rule", "", "500/1h")
	seen := make([]atomic.Int64, 500)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for range 5 {
				seen[mustTake(t, b, start, "key", 1).Remaining].Add(1)
			}
		})
	}
	all.Wait()
	for left := range seen {
		if got := seen[left].Load(); got != 1 {
			t.Errorf("%d callers were told that %d remain, want 1", got, left)
		}
	}
}

// Not parallel, as it counts goroutines.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	server := testserver.Memcached(t)
	mustEnd := leaktest.Since(t)
	s := mustNew(t, nil, server.Addr())
	b := mustBind(t, s, "rule", "", "10/1h")
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for range 20 {
				_, _ = b.Apply(t.Context(), start, fmt.Sprint("key ", i%8), headgate.Take, 1)
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	mustEnd()
}
