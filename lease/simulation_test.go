package lease_test

import (
	"cmp"
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

var simulations = flag.Int("simulations", 0, "number of long simulations of each algorithm")

// leased are the algorithms that can be leased, with limits that are reached often.
var leased = map[headgate.Algorithm]string{
	headgate.TokenBucket:         "100000/1s burst 20000",
	headgate.TokenBucketInterval: "20000/200ms burst 30000",
	headgate.FixedWindow:         "50000/500ms",
	headgate.CalendarWindow:      "100000/second",
	headgate.SlidingWindow:       "50000/500ms",
	headgate.SlidingLog:          "50000/500ms",
}

// simulation is a run of several nodes that share one key over a network, in fake time.
// The random choices depend on the seed only.
type simulation struct {
	algorithm headgate.Algorithm
	limit     headgate.Limit
	lease     headgate.LeaseSettings
	nodes     int
	duration  time.Duration
	seed      uint64
	faults    bool
	// load returns the requests per second of node i, drawn again every 100 ms.
	load func(r *rand.Rand, i int) float64
	// mistake returns a store with a mistake in the protocol; nil means none.
	mistake func(headgate.LeaseStore) headgate.LeaseStore
	// slowClocks makes all clocks slow by 1 %.
	slowClocks bool
	// resets makes nodes reset the key.
	resets bool
}

// outcome is what a simulation counted.
type outcome struct {
	log            []spend
	resets         []int64
	asked, allowed int64
	fromMemory     int64
	stats          lease.Stats
	crashes        int
}

func (s simulation) run(t *testing.T) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		defer store.Close()
		net := &shared{store: store, faults: s.faults}
		var all sync.WaitGroup
		var mu sync.Mutex
		end := time.Now().Add(s.duration)
		for i := range s.nodes {
			all.Go(func() {
				n := &node{simulation: s, t: t, shared: net, number: i, end: end, random: rand.New(rand.NewPCG(s.seed, uint64(i)))}
				n.runUntilEnd()
				mu.Lock()
				defer mu.Unlock()
				o.add(n)
			})
		}
		all.Wait()
		net.copies.Wait()
		o.log, o.resets = net.log, net.resets
	})
	return o
}

func (o *outcome) add(n *node) {
	o.asked += n.asked
	o.allowed += n.allowed
	o.fromMemory += n.stats.Decisions
	o.stats.Calls += n.stats.Calls
	o.stats.Stranded += n.stats.Stranded
	o.stats.Waited += n.stats.Waited
	o.stats.Failed += n.stats.Failed
	o.crashes += n.crashes
}

// node is one process of a simulation. It restarts after a crash.
type node struct {
	simulation
	t       *testing.T
	shared  *shared
	number  int
	end     time.Time
	random  *rand.Rand
	asked   int64
	allowed int64
	crashes int
	stats   lease.Stats
}

// runUntilEnd starts the process again after each crash.
func (n *node) runUntilEnd() {
	for time.Now().Before(n.end) {
		l := &link{LeaseStore: n.shared.store, shared: n.shared, random: rand.New(rand.NewPCG(n.random.Uint64(), 0))}
		var inner headgate.LeaseStore = l
		if n.mistake != nil {
			inner = n.mistake(l)
		}
		store, err := lease.New(inner, nil)
		if err != nil {
			n.t.Fatal(err)
		}
		rate := 0.99 + n.random.Float64()*0.02
		if n.slowClocks {
			rate = 0.99
		}
		lease.SetClockRate(store, rate)
		crashed := n.run(store, l)
		st := store.Stats()
		n.stats.Calls, n.stats.Failed, n.stats.Waited = n.stats.Calls+st.Calls, n.stats.Failed+st.Failed, n.stats.Waited+st.Waited
		n.stats.Decisions, n.stats.Stranded = n.stats.Decisions+st.Decisions, n.stats.Stranded+st.Stranded
		if crashed {
			n.crashes++
			l.down.Store(true)
		}
		store.Close()
		time.Sleep(time.Duration(n.random.IntN(300)) * time.Millisecond)
	}
}

// run sends requests until the end or a crash.
func (n *node) run(store *lease.Store, l *link) (crashed bool) {
	rule := headgate.Rule{Scope: "s", Name: "limit", Limit: n.limit, Algorithm: n.algorithm, Lease: n.lease}
	b, err := store.Bind(rule)
	if err != nil {
		n.t.Fatal(err)
	}
	for time.Now().Before(n.end) {
		if n.faults {
			l.down.Store(n.random.IntN(15) == 0)
			if n.random.IntN(60) == 0 {
				return true
			}
			if n.resets && n.random.IntN(20) == 0 {
				_, _ = b.Apply(context.Background(), headgate.StoreClock, "key", headgate.Reset, 0)
			}
		}
		n.ask(b, n.load(n.random, n.number), time.Now().Add(100*time.Millisecond))
	}
	return false
}

// ask sends perSecond requests per second until the given time, from four callers.
func (n *node) ask(b headgate.Bound, perSecond float64, until time.Time) {
	var callers sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		r := rand.New(rand.NewPCG(n.random.Uint64(), 0))
		callers.Go(func() {
			asked, allowed := n.call(b, r, perSecond/4, until)
			mu.Lock()
			defer mu.Unlock()
			n.asked, n.allowed = n.asked+asked, n.allowed+allowed
		})
	}
	callers.Wait()
}

func (n *node) call(b headgate.Bound, r *rand.Rand, perSecond float64, until time.Time) (asked, allowed int64) {
	last, due := time.Now(), 0.0
	for time.Now().Before(until) {
		time.Sleep(time.Duration(200+r.IntN(1800)) * time.Microsecond)
		due += time.Since(last).Seconds() * perSecond
		for last = time.Now(); due >= 1; due-- {
			cost := 1 + r.Int64N(2)*r.Int64N(2)*r.Int64N(3)
			asked++
			d, err := b.Apply(context.Background(), headgate.StoreClock, "key", headgate.Take, cost)
			if err != nil || !d.Allowed {
				continue
			}
			if allowed++; d.Leased {
				n.shared.note(cost)
			}
		}
	}
	return asked, allowed
}

// anyLoad returns a load from nothing to eight times the share of a node.
func anyLoad(rate float64) func(*rand.Rand, int) float64 {
	return func(r *rand.Rand, _ int) float64 { return rate / 4 * []float64{0, 0.1, 0.5, 1, 8}[r.IntN(5)] }
}

func perSecond(l headgate.Limit) float64 { return float64(l.Rate) / l.Period.Seconds() }

// newSimulation returns a simulation of four nodes with all faults.
func newSimulation(a headgate.Algorithm, seed uint64) simulation {
	l := headgate.MustParseLimit(leased[a])
	if a == headgate.CalendarWindow {
		l.Period = time.Second
	}
	r := rand.New(rand.NewPCG(seed, 1))
	return simulation{
		algorithm: a, limit: headgate.MustParseLimit(leased[a]), nodes: 4, seed: seed, faults: true, resets: seed%2 == 1, load: anyLoad(perSecond(l)), duration: 3 * time.Second,
		lease: headgate.LeaseSettings{Share: []int{5, 10, 50}[r.IntN(3)], TTL: []time.Duration{20 * time.Millisecond, 250 * time.Millisecond}[r.IntN(2)]},
	}
}

// judged returns the limit with the period of its windows.
func (s simulation) judged() headgate.Limit {
	l := s.limit
	if s.algorithm == headgate.CalendarWindow {
		l.Period = time.Second
	}
	return l
}

// TestSimulation checks the bound of the limit without leases in every span, under
// losses, repeated messages, partitions, crashes and drifting clocks. Half of the runs
// have resets, after which the bound begins again.
func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for a := range leased {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds {
				newSimulation(a, seed).check(t)
			}
		})
	}
}

// TestLongSimulation is TestSimulation with at least a million allowed requests in each
// run. Set -simulations to run it.
func TestLongSimulation(t *testing.T) {
	t.Parallel()
	for a := range leased {
		t.Run(string(a), func(t *testing.T) {
			for seed := range uint64(*simulations) {
				s := newSimulation(a, seed+1000)
				s.duration = 3 * time.Minute
				if o := s.check(t); o.allowed < 1_000_000 {
					t.Errorf("seed %d: %d requests were allowed, want at least 1,000,000", s.seed, o.allowed)
				}
			}
		})
	}
}

// parts returns the log before, between and after the resets. The units that were spent
// in the microsecond of a reset are left out: they may be before it or after it.
func (o *outcome) parts() (parts [][]spend) {
	slices.Sort(o.resets)
	rest := o.log
	for _, at := range o.resets {
		i, _ := slices.BinarySearchFunc(rest, at, func(s spend, at int64) int { return cmp.Compare(s.at, at) })
		parts, rest = append(parts, rest[:i]), rest[i:]
		for len(rest) > 0 && rest[0].at == at {
			rest = rest[1:]
		}
	}
	return append(parts, rest)
}

func (s simulation) check(t *testing.T) outcome {
	t.Helper()
	o := s.run(t)
	for _, log := range o.parts() {
		if err := judge(s.algorithm, s.judged(), log); err != nil {
			t.Errorf("%s %v, seed %d: %v", s.algorithm, s.limit, s.seed, err)
		}
	}
	t.Logf("%s %v, %d%% for %v, seed %d: %d of %d requests were allowed, %d units of %.0f; %d decisions from memory, %d calls, %d failed, %d waits, %d crashes, %d resets, %d units stranded",
		s.algorithm, s.limit, s.lease.Share, s.lease.TTL, s.seed, o.allowed, o.asked, total(o.log), perSecond(s.judged())*s.duration.Seconds(), o.fromMemory, o.stats.Calls, o.stats.Failed, o.stats.Waited, o.crashes, len(o.resets), o.stats.Stranded)
	return o
}
