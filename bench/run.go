package bench

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Case is one set of conditions under which all limiters are measured.
type Case struct {
	Keys   int     // number of keys, used in random order
	Denied float64 // intended denial rate, 0 to 1
}

// Result is the measurement of one round.
type Result struct {
	Checks int64
	Wall   time.Duration
	Denied float64 // measured denial rate, 0 to 1
	Allocs float64 // allocations per check
}

// Nanos returns the wall time in ns, divided by the number of checks of all goroutines.
func (r Result) Nanos() float64 { return float64(r.Wall.Nanoseconds()) / float64(r.Checks) }

// Job is what a worker process measures: a peer and a case.
type Job struct {
	Peer string
	Case Case
}

// Order is the request to a worker process to measure one round.
type Order struct {
	Goroutines int
	Time       time.Duration // approximate duration of the round
}

// Prepare calls the function [Prepare] for the job and returns a function that measures
// one round.
func (j Job) Prepare() (round func(Order) (Result, error), err error) {
	peers, err := Named(j.Peer)
	if err != nil {
		return nil, err
	}
	subject, err := Prepare(peers[0], j.Case)
	return subject.Round, err
}

// Subject is a peer that is ready to be measured under a case.
type Subject struct {
	peer    Peer
	kind    Case
	limiter Limiter // nil for a single key, because every round then creates a limiter
	seed    uint64
}

// Prepare creates the limiter of a peer and makes one request for every key, so that no
// key is new during a round. It drains a fraction of the keys that equals the intended
// denial rate. For a single key, each round instead uses a rate that causes the
// intended denial rate.
func Prepare(p Peer, c Case) (*Subject, error) {
	if p.OneKey && c.Keys > 1 {
		return nil, fmt.Errorf("bench: %s limits one key, not %d", p.Name, c.Keys)
	}
	s := &Subject{peer: p, kind: c}
	if c.Keys == 1 {
		return s, nil
	}
	l, err := p.New(Budget, c.Keys)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", p.Name, err)
	}
	Fill(l, p, c.Keys, c.Denied)
	s.limiter = l
	return s, nil
}

// Fill makes one request for every key of l, and drains the given fraction of the keys.
func Fill(l Limiter, p Peer, keys int, drained float64) {
	texts := NewKeys(keys, 0)
	for i := range uint64(keys) {
		key := texts.Key(i)
		if p.KeepsText {
			key = strings.Clone(key)
		}
		// The condition permutes the index i. Otherwise the drained keys would be the
		// last ones, and their texts would be longer than the texts of other keys.
		if i*0x9e3779b97f4a7c15>>32 < uint64(drained*(1<<32)) {
			l.Drain(key)
		} else {
			l.Allow(key)
		}
	}
}

// Round measures one round with the goroutines and the duration in o.
func (s *Subject) Round(o Order) (Result, error) {
	s.seed += 1000
	l, err := s.forRound(o.Goroutines)
	if err != nil {
		return Result{}, err
	}
	runtime.GC()
	return measure(l, s.kind.Keys, o.Goroutines, o.Time, s.seed), nil
}

// forRound returns the limiter for a round. For a single key it returns a new limiter,
// with a rate that fits the number of goroutines.
func (s *Subject) forRound(goroutines int) (Limiter, error) {
	if s.limiter != nil {
		return s.limiter, nil
	}
	return s.calibrate(goroutines)
}

// calibrate returns a limiter for a single key, with a rate that causes the intended
// denial rate at the speed of this machine. It searches for the rate iteratively,
// because denied and allowed checks take different times.
func (s *Subject) calibrate(goroutines int) (Limiter, error) {
	perSecond := 1_000_000
	for range 5 {
		l, err := s.oneKey(perSecond)
		if err != nil {
			return nil, err
		}
		r := measure(l, 1, goroutines, 20*time.Millisecond, s.seed)
		perSecond = min(1_000_000_000, int((1-s.kind.Denied)*1e9/r.Nanos()))
	}
	return s.oneKey(perSecond)
}

func (s *Subject) oneKey(perSecond int) (Limiter, error) {
	l, err := s.peer.New(Rate(perSecond), 1)
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", s.peer.Name, err)
	}
	Fill(l, s.peer, 1, 0)
	return l, nil
}

// measure makes checks on l with the given number of goroutines for about d.
func measure(l Limiter, keys, goroutines int, d time.Duration, seed uint64) Result {
	var stop atomic.Bool
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	return drive(l, keys, goroutines, seed, func(int64) bool { return !stop.Load() })
}

// batch is the number of checks that a goroutine makes between two calls of more; see
// drive.
const batch = 256

// drive makes batches of checks in every goroutine as long as more returns true. The
// argument of more is the number of checks that the goroutine has made.
func drive(l Limiter, keys, goroutines int, seed uint64, more func(done int64) bool) Result {
	var checks, denied atomic.Int64
	var wg sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for g := range goroutines {
		wg.Go(func() {
			n, no := work(l, NewKeys(keys, seed+uint64(g)), more)
			checks.Add(n)
			denied.Add(no)
		})
	}
	wg.Wait()
	wall := time.Since(start)
	runtime.ReadMemStats(&after)
	n := checks.Load()
	return Result{
		Checks: n, Wall: wall,
		Denied: float64(denied.Load()) / float64(n),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(n),
	}
}

func work(l Limiter, keys *Keys, more func(done int64) bool) (done, denied int64) {
	for {
		for range batch {
			if !l.Allow(keys.Next()) {
				denied++
			}
		}
		done += batch
		if !more(done) {
			return done, denied
		}
	}
}
