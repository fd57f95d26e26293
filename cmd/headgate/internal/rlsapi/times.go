package rlsapi

import (
	"sync/atomic"
	"time"
)

// timeBounds are those that response times are counted up to. From 5 ms on they are those that envoyproxy/ratelimit has.
var timeBounds = [...]time.Duration{
	25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second,
}

// Of quick requests one in so many is measured, and those behind it count as if they had taken as long: looking at the clock twice costs
// as much as a quarter of a decision in memory. Those behind a slow one are all measured.
const (
	measureEvery = 8
	quick        = 100 * time.Microsecond
)

// Times are how long requests took.
type Times struct {
	Count uint64                   // of all requests
	Sum   time.Duration            // of all requests
	UpTo  map[time.Duration]uint64 // how many took at most so long
}

// timeLanes are how many counters of times there are: calls that are made at a time mostly count on different ones.
const timeLanes = 8

// times counts response times. Its zero value is ready.
type times struct{ lanes [timeLanes]timeLane }

type timeLane struct {
	sum    atomic.Int64                       // ns
	counts [len(timeBounds) + 1]atomic.Uint64 // of each bound those above the one before; the last of those above all
	_      [40]byte                           // up to whole cache lines
}

func (t *times) add(lane uint32, d time.Duration) {
	l := &t.lanes[lane%timeLanes]
	i := 0
	for i < len(timeBounds) && d > timeBounds[i] {
		i++
	}
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
}

// all is what was counted since the start.
func (t *times) all() Times {
	all := Times{UpTo: make(map[time.Duration]uint64, len(timeBounds))}
	for i := range len(timeBounds) + 1 {
		for lane := range t.lanes {
			all.Count += t.lanes[lane].counts[i].Load()
		}
		if i < len(timeBounds) {
			all.UpTo[timeBounds[i]] = all.Count
		}
	}
	for lane := range t.lanes {
		all.Sum += time.Duration(t.lanes[lane].sum.Load())
	}
	return all
}

// stopwatch measures the requests of one call's memory, one after the other.
type stopwatch struct {
	lane    uint32
	passed  uint32        // requests since one was measured
	last    time.Duration // the last that was measured; 0 before the first
	started time.Duration // 0 if the request is not measured
}

// stopwatches is how many there are.
var stopwatches atomic.Uint32

// begun is when moments begin.
var begun = time.Now()

// moment is later than 0.
func moment() time.Duration { return time.Since(begun) + 1 }

func (s *stopwatch) start(now func() time.Duration) {
	s.started = 0
	if s.passed++; s.last == 0 || s.last > quick || s.passed >= measureEvery {
		s.passed, s.started = 0, now()
	}
}

// stop is how long the request took, as far as it is known: more than 0.
func (s *stopwatch) stop(now func() time.Duration) time.Duration {
	if s.started != 0 {
		s.last = max(1, now()-s.started)
	}
	return s.last
}
