package bench

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Case is one situation in which limiters are measured.
type Case struct {
	Keys   int     // keys in use, requested in random order
	Denied float64 // intended denial rate, 0 to 1
}

// Result is the measurement of one round.
type Result struct {
	Checks int64
	Wall   time.Duration
	Denied float64 // measured denial rate, 0 to 1
	Allocs float64 // allocations per check
}

// Nanos returns wall time in ns divided by the checks of all goroutines.
func (r Result) Nanos() float64 { return float64(r.Wall.Nanoseconds()) / float64(r.Checks) }

// Job is the peer and the case of a worker process.
type Job struct {
	Peer string
	Case Case
}

// Order is one round for a worker process.
type Order struct {
	Goroutines int
	Time       time.Duration // approximate duration
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

// Subject is a peer prepared for a case.
type Subject struct {
	peer    Peer
	kind    Case
	limiter Limiter // nil for a single key: every round then creates a limiter
	seed    uint64
}

// Prepare creates the peer's limiter and requests every key once, so that no key is
// inserted during a round. The fraction of keys that equals the intended denial rate is
// drained. For a single key, each round sets a rate that causes the intended denials.
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

// Fill requests every key of l once and drains the given fraction of them.
func Fill(l Limiter, p Peer, keys int, drained float64) {
	texts := NewKeys(keys, 0)
	for i := range uint64(keys) {
		key := texts.Key(i)
		if p.KeepsText {
			key = strings.Clone(key)
		}
		// The index is permuted. Otherwise the drained keys would be the last ones, and
		// their texts would have other lengths.
		if i*0x9e3779b97f4a7c15>>32 < uint64(drained*(1<<32)) {
			l.Drain(key)
		} else {
			l.Allow(key)
		}
	}
}

// Round measures one round.
func (s *Subject) Round(o Order) (Result, error) {
	s.seed += 1000
	l, err := s.forRound(o.Goroutines)
	if err != nil {
		return Result{}, err
	}
	runtime.GC()
	return measure(l, s.kind.Keys, o.Goroutines, o.Time, s.seed), nil
}

// forRound returns the filled limiter. For a single key it returns a new limiter with a
// rate that fits the number of goroutines.
func (s *Subject) forRound(goroutines int) (Limiter, error) {
	if s.limiter != nil {
		return s.limiter, nil
	}
	return s.calibrate(goroutines)
}

// calibrate returns a limiter for a single key with a rate that causes the intended
// denial rate at the speed of this machine. A denial and an allowed check cost
// different times, so the rate is found iteratively.
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

// measure runs checks against l on the given number of goroutines for about d.
func measure(l Limiter, keys, goroutines int, d time.Duration, seed uint64) Result {
	var stop atomic.Bool
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	return drive(l, keys, goroutines, seed, func(int64) bool { return !stop.Load() })
}

// batch is the number of checks between two calls of more.
const batch = 256

// drive runs batches of checks on every goroutine while more returns true. The argument
// of more is the number of checks of that goroutine.
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
