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

const longTimeout = 2 * time.Minute

// runContention makes calls of several stores, like several processes, on one key at a
// fixed instant. It returns how much was allowed. No call may fail.
func runContention(t *testing.T, server string, o Options, processes, callers, takes int, limit string) int64 {
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
					d, err := b.Apply(t.Context(), testInstant, "key", headgate.Take, 1)
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

// T1, T34: no call fails, whatever the number of callers of a key, and exactly the
// limit is allowed.
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
			c.opts.Timeout = longTimeout
			asked := c.processes * c.callers * c.rounds
			limit := asked / 2
			if got := runContention(t, server.Addr(), c.opts, c.processes, c.callers, c.rounds, fmt.Sprintf("%d/1h", limit)); got != int64(limit) {
				t.Errorf("%d takes of %d: got %d allowed", asked, limit, got)
			}
		})
	}
}

// Calls on one key are joined: 256 callers send far fewer requests than calls.
func TestJoinSharesRoundTrips(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	var sent atomic.Int64
	s := newTappedStore(t, &Options{Timeout: longTimeout}, server.Addr(), func(string, string) { sent.Add(1) })
	b := mustBind(t, s, "rule", "", "1000000/1h")
	var all sync.WaitGroup
	for range 256 {
		all.Go(func() {
			for range 20 {
				mustTake(t, b, testInstant, "key", 1)
			}
		})
	}
	all.Wait()
	if got := remaining(t, b, testInstant, "key"); got != 1_000_000-256*20 {
		t.Errorf("got %d remaining want %d", got, 1_000_000-256*20)
	}
	if got := sent.Load(); got > 256*20/4 {
		t.Errorf("%d calls sent %d requests, want at most a quarter of them", 256*20, got)
	}
}

// The same trace has the same decisions with and without joining and batching.
func TestOptionsKeepDecisions(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, a := range allAlgorithms() {
		seed := rand.Uint64()
		var answers [][]headgate.Decision
		for i, o := range []Options{{}, {DisableJoin: true}, {MaxConns: 1}} {
			o.Namespace, o.Timeout = fmt.Sprint(i), longTimeout
			answers = append(answers, runTrace(t, mustNew(t, &o, server.Addr()), a, seed))
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

// runTrace makes random concurrent requests on a few keys, and returns the decisions by
// key.
func runTrace(t *testing.T, s *Store, a headgate.Algorithm, seed uint64) []headgate.Decision {
	const keys, steps = 4, 100
	b := mustBind(t, s, t.Name(), a, "10/1s")
	answers := make([]headgate.Decision, keys*steps)
	var all sync.WaitGroup
	for k := range keys {
		all.Go(func() {
			random, at := rand.New(rand.NewPCG(seed, uint64(k))), testInstant
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

// Joined calls are decided in order: each decision includes the earlier calls and its
// own.
func TestJoinKeepsOrder(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	b := mustBind(t, mustNew(t, &Options{Timeout: longTimeout}, server.Addr()), "rule", "", "500/1h")
	seen := make([]atomic.Int64, 500)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for range 5 {
				seen[mustTake(t, b, testInstant, "key", 1).Remaining].Add(1)
			}
		})
	}
	all.Wait()
	for left := range seen {
		if got := seen[left].Load(); got != 1 {
			t.Errorf("%d callers: got Remaining %d, want 1 caller", got, left)
		}
	}
}

// Not parallel, as it counts goroutines.
func TestCloseLeaksNoGoroutine(t *testing.T) {
	server := testserver.Memcached(t)
	mustEnd := leaktest.Since(t)
	s := mustNew(t, nil, server.Addr())
	b := mustBind(t, s, "rule", "", "10/1h")
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for range 20 {
				_, _ = b.Apply(t.Context(), testInstant, fmt.Sprint("key ", i%8), headgate.Take, 1)
			}
		})
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	mustEnd()
}
