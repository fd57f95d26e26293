package rlsapi

import (
	"sync/atomic"
	"time"
)

// timeBounds are bounds of durations. From 5 ms on they are those of
// envoyproxy/ratelimit.
var timeBounds = [...]time.Duration{
	25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second,
}

// Only 1 in measureEvery fast requests is timed; the others are counted with its
// duration. Two looks at the clock cost a quarter of a decision in memory. After a slow
// request all are timed.
const (
	measureEvery = 8
	fast         = 100 * time.Microsecond
)

// Times are durations of requests.
type Times struct {
	Count uint64                   // of all requests
	Sum   time.Duration            // of all requests
	UpTo  map[time.Duration]uint64 // requests of at most this duration
}

// timeShards is the number of histograms. Simultaneous requests mostly count in
// different ones.
const timeShards = 8

// times is a histogram of durations. Its zero value is ready.
type times struct{ lanes [timeShards]timeLane }

type timeLane struct {
	sum    atomic.Int64                       // ns
	counts [len(timeBounds) + 1]atomic.Uint64 // by bound; the last is above all bounds
	_      [40]byte                           // fills the last cache line
}

func (t *times) add(lane uint32, d time.Duration) {
	l := &t.lanes[lane%timeShards]
	i := 0
	for i < len(timeBounds) && d > timeBounds[i] {
		i++
	}
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
}

// load adds up what was counted since the start.
func (t *times) load() Times {
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

// stopwatch times the requests of one requestState, one after the other.
type stopwatch struct {
	lane    uint32
	skipped uint32        // requests since the last timed one
	last    time.Duration // the last timed duration; 0 before the first
	started time.Duration // 0 if the current request is not timed
}

// stopwatches is the number of stopwatches.
var stopwatches atomic.Uint32

// processStart is the instant that moments are counted from.
var processStart = time.Now()

// moment is always more than 0.
func moment() time.Duration { return time.Since(processStart) + 1 }

func (s *stopwatch) start(now func() time.Duration) {
	s.started = 0
	if s.skipped++; s.last == 0 || s.last > fast || s.skipped >= measureEvery {
		s.skipped, s.started = 0, now()
	}
}

// stop returns the duration of the request, more than 0, or of the last timed one.
func (s *stopwatch) stop(now func() time.Duration) time.Duration {
	if s.started != 0 {
		s.last = max(1, now()-s.started)
	}
	return s.last
}
