package memcachedstore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
)

// A write by another process between a gets and its cas or add is detected: nothing is
// allowed twice.
func TestCASConflict(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, key := range []string{"unused", "used"} {
		t.Run(key, func(t *testing.T) {
			other := mustBind(t, mustNew(t, nil, server.Addr()), "rule", "", "10/1h")
			between := once(func() { mustTake(t, other, testInstant, key, 4) })
			writes := 0
			s := newTappedStore(t, nil, server.Addr(), func(verb, _ string) {
				if verb == "add" || verb == "cas" {
					writes++
					between()
				}
			})
			b := mustBind(t, s, "rule", "", "10/1h")
			left := int64(10)
			if key == "used" {
				left -= 2
				mustTake(t, other, testInstant, key, 2)
			}
			if d := mustTake(t, b, testInstant, key, 3); !d.Allowed || d.Remaining != left-7 {
				t.Errorf("take 3 while another process takes 4 of %d: got %+v want allowed and %d remaining", left, d, left-7)
			}
			if writes != 2 {
				t.Errorf("writes: got %d want 2: one with a conflict and one without", writes)
			}
		})
	}
}

// T43: the server drops the key at every possible step.
func TestEvictionAtEveryStep(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	back := newClient(t, server.Addr())
	for _, verb := range []string{"gets", "cas"} {
		for _, a := range allAlgorithms() {
			t.Run(fmt.Sprint(verb, " ", a), func(t *testing.T) {
				var armed atomic.Bool
				s := newTappedStore(t, nil, server.Addr(), func(got, name string) {
					if got == verb && armed.CompareAndSwap(true, false) {
						if err := back.Delete(name); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
							t.Error(err)
						}
					}
				})
				b := mustBind(t, s, verb, a, "10/1h")
				for round := range 5 {
					mustTake(t, b, testInstant, "key", 7)
					armed.Store(true)
					if d := mustTake(t, b, testInstant, "key", 2); !d.Allowed || d.Remaining != 8 {
						t.Errorf("round %d: take 2 of a key that was just dropped: got %+v want allowed with 8 remaining", round, d)
					}
					if got := remaining(t, b, testInstant, "key"); got != 8 {
						t.Errorf("round %d: got %d remaining want 8", round, got)
					}
					if _, err := b.Apply(t.Context(), testInstant, "key", headgate.Reset, 0); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// allAlgorithms returns the names of all algorithms.
func allAlgorithms() []headgate.Algorithm {
	var all []headgate.Algorithm
	for _, a := range algo.Rates() {
		all = append(all, a.Name)
	}
	return all
}

// A denial and a peek send one gets and nothing else.
func TestPeekAndDenialWriteNothing(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	var mu sync.Mutex
	var sent []string
	s := newTappedStore(t, nil, server.Addr(), func(verb, _ string) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, verb)
	})
	for _, a := range allAlgorithms() {
		b := mustBind(t, s, "rule", a, "3/1h")
		mustTake(t, b, testInstant, "key", 3)
		sent = nil
		if mustTake(t, b, testInstant, "key", 1).Allowed || remaining(t, b, testInstant, "key") != 0 || remaining(t, b, testInstant, "unused") != 3 {
			t.Errorf("%s: after 3 of 3: got units left want none, and 3 of an unused key", a)
		}
		if fmt.Sprint(sent) != "[gets gets gets]" {
			t.Errorf("%s: a denial and two peeks: sent %v want three gets", a, sent)
		}
	}
}

// orderedKeys returns two keys for concurrent debits; first is written first.
func orderedKeys(b *bound) (first, second string) {
	if b.scope.digest("left").compare(b.scope.digest("right")) < 0 {
		return "left", "right"
	}
	return "right", "left"
}

func takeBoth(t *testing.T, s *Store, b *bound, cost int64) []headgate.Decision {
	t.Helper()
	decisions := make([]headgate.Decision, 2)
	ops := []headgate.Op{{Bound: b, Key: "left", Cost: cost}, {Bound: b, Key: "right", Cost: cost}}
	if err := s.ApplyAll(t.Context(), testInstant, ops, false, decisions); err != nil {
		t.Fatal(err)
	}
	return decisions
}

// Between the two writes of a debit on two keys another process changes one or both.
func TestMultiKeyConcurrentChange(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	for _, c := range []struct {
		name                      string
		takesFirst, takesSecond   int64 // taken by the other process in between
		allowed                   bool
		leavesFirst, leavesSecond int64
	}{
		{"no change", 0, 0, true, 7, 7},
		{"second key, enough left", 0, 7, true, 7, 0},
		{"second key, not enough left", 0, 8, false, 10, 2},
		{"first key", 4, 0, true, 3, 7},
		{"both keys, 3 refunded on the first", 4, 8, false, 6, 2},
	} {
		for _, a := range allAlgorithms() {
			t.Run(c.name+" "+string(a), func(t *testing.T) {
				scope := t.Name()
				other := mustBind(t, mustNew(t, nil, server.Addr()), scope, a, "10/1h")
				first, second := orderedKeys(other)
				writes := 0
				s := newTappedStore(t, nil, server.Addr(), func(verb, _ string) {
					if verb != "add" && verb != "cas" {
						return
					}
					if writes++; writes == 2 {
						mustTake(t, other, testInstant, first, c.takesFirst)
						mustTake(t, other, testInstant, second, c.takesSecond)
					}
				})
				decisions := takeBoth(t, s, mustBind(t, s, scope, a, "10/1h"), 3)
				if got := decisions[0].Allowed && decisions[1].Allowed; got != c.allowed {
					t.Errorf("3 of both: got allowed=%v want %v", got, c.allowed)
				}
				leavesFirst := c.leavesFirst
				if a.Queues() && leavesFirst == 6 {
					leavesFirst = 3 // later reservations keep their instants
				}
				if got := remaining(t, other, testInstant, first); got != leavesFirst {
					t.Errorf("the key written first: got %d remaining want %d", got, leavesFirst)
				}
				if got := remaining(t, other, testInstant, second); got != c.leavesSecond {
					t.Errorf("the key written second: got %d remaining want %d", got, c.leavesSecond)
				}
			})
		}
	}
}

// Eight stores, like eight processes, debit two keys concurrently. Never more is
// allowed than by the stricter limit. Units that were about to be refunded are not
// lost, unless another process has spent after them.
func TestMultiKeyManyProcesses(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	const processes, callers, rounds, limit = 8, 4, 10, 100
	var admitted atomic.Int64
	var all sync.WaitGroup
	probe := mustBind(t, mustNew(t, nil, server.Addr()), "rule", "", "100/1h")
	mustTake(t, probe, testInstant, "right", 30)
	for range processes {
		s := mustNew(t, &Options{MaxTries: 1000, Timeout: longTimeout}, server.Addr())
		b := mustBind(t, s, "rule", "", "100/1h")
		for range callers {
			all.Go(func() {
				for range rounds {
					if d := takeBoth(t, s, b, 1); d[0].Allowed && d[1].Allowed {
						admitted.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	left, right := remaining(t, probe, testInstant, "left"), remaining(t, probe, testInstant, "right")
	if got := admitted.Load(); got > limit-30 || got > limit-left || got+30 > limit-right {
		t.Errorf("got %d allowed, %d and %d left; want at most 70, all of them spent", got, left, right)
	}
	t.Logf("%d of 70 admitted; %d units were spent for nothing on one key, %d on the other", admitted.Load(), limit-left-admitted.Load(), limit-30-right-admitted.Load())
}

// In one process requests on overlapping keys are serialized: nothing is refunded or
// lost, and no cas conflicts.
func TestMultiKeySerializedInProcess(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	s := mustNew(t, &Options{Timeout: longTimeout}, server.Addr())
	b := mustBind(t, s, "rule", "", "10000/1h")
	scarce := mustBind(t, s, "scarce", "", "50/1h")
	keys := []string{"a", "b", "c"}
	spent := make([]atomic.Int64, len(keys))
	var all sync.WaitGroup
	for g := range 24 {
		all.Go(func() {
			one, other := g%3, (g+1)%3
			for range 20 {
				if mustTake(t, b, testInstant, keys[one], 1).Allowed {
					spent[one].Add(1)
				}
				ops := []headgate.Op{
					{Bound: b, Key: keys[one], Cost: 1}, {Bound: b, Key: keys[other], Cost: 1}, {Bound: scarce, Key: keys[other], Cost: 1},
				}
				decisions := make([]headgate.Decision, len(ops))
				if err := s.ApplyAll(t.Context(), testInstant, ops, false, decisions); err != nil {
					t.Error(err)
				} else if decisions[0].Allowed && decisions[1].Allowed && decisions[2].Allowed {
					spent[one].Add(1)
					spent[other].Add(1)
				}
			}
		})
	}
	all.Wait()
	for i, key := range keys {
		if got, want := remaining(t, b, testInstant, key), 10_000-spent[i].Load(); got != want {
			t.Errorf("key %s: got %d remaining want %d: units were lost", key, got, want)
		}
		if got := remaining(t, scarce, testInstant, key); got != 0 {
			t.Errorf("scarce %s: got %d remaining want 0", key, got)
		}
	}
	if stats := server.Do(t, "stats"); !slices.Contains(stats, "STAT cas_badval 0") {
		t.Errorf("got cas conflicts: %q", stats)
	}
}
