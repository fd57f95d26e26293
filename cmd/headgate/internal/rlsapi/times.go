package rlsapi

import (
	"sync/atomic"
	"time"
)

// timeBounds are the upper bounds of the histogram's buckets. Those from 5 ms on are
// the bounds of envoyproxy/ratelimit.
var timeBounds = [...]time.Duration{
	25 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second,
}

// While requests are fast, only 1 in measureEvery is timed, and the others are counted
// with the last timed duration. Reason: reading the clock twice costs a quarter of the
// time of a decision in memory. After a slow request, every request is timed until one
// is fast again.
const (
	measureEvery = 8
	fast         = 100 * time.Microsecond
)

// Times is a histogram of the durations of requests.
type Times struct {
	Count uint64                   // number of all requests
	Sum   time.Duration            // sum of the durations of all requests
	UpTo  map[time.Duration]uint64 // number of requests whose duration was at most the key
}

// timeShards is the number of histograms. Simultaneous requests mostly use different
// histograms, to avoid contention.
const timeShards = 8

// times is a histogram of durations in several shards. The zero value is ready for use.
type times struct {
	lanes   [timeShards]timeLane
	samples *[timeShards]timeSample // nil unless [Options].SampleTimes is set
}

type timeLane struct {
	sum    atomic.Int64                       // in ns
	counts [len(timeBounds) + 1]atomic.Uint64 // by index in timeBounds; the last counts durations above all bounds
	_      [40]byte                           // padding up to a whole number of cache lines
}

func (t *times) add(lane uint32, d time.Duration) {
	l := &t.lanes[lane%timeShards]
	i := 0
	for i < len(timeBounds) && d > timeBounds[i] {
		i++
	}
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
	if t.samples != nil {
		t.samples[lane%timeShards].add(d)
	}
}

// load returns the sum of all shards.
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

// stopwatch measures the durations of the requests that one requestState processes in
// turn.
type stopwatch struct {
	lane    uint32
	skipped uint32        // number of requests since the last timed one
	last    time.Duration // last measured duration; 0 before the first measurement
	started time.Duration // start of the current request; 0 if it is not timed
}

// stopwatches counts the stopwatches created so far.
var stopwatches atomic.Uint32

// processStart is the origin of the times that moment returns.
var processStart = time.Now()

// moment returns the time since processStart. It is always greater than 0.
func moment() time.Duration { return time.Since(processStart) + 1 }

func (s *stopwatch) start(now func() time.Duration) {
	s.started = 0
	if s.skipped++; s.last == 0 || s.last > fast || s.skipped >= measureEvery {
		s.skipped, s.started = 0, now()
	}
}

// stop returns the duration of the current request, which is greater than 0. If the
// request is not timed, stop returns the last measured duration.
func (s *stopwatch) stop(now func() time.Duration) time.Duration {
	if s.started != 0 {
		s.last = max(1, now()-s.started)
	}
	return s.last
}
