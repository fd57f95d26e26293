package redisstore

import (
	"sync"
	"time"
)

const (
	// minClockStep is the smallest step that is reported.
	minClockStep = time.Second
	// clockReportInterval is the minimum time between two reports.
	clockReportInterval = time.Minute
	// maxClockDrift is the reciprocal of the rate by which a clock may be slower than
	// this process's: NTP slews a clock by at most 500 ppm.
	maxClockDrift = 1000
)

// clockWatch compares the instants in replies with the monotonic clock, to detect a
// server whose clock was set back. It looks at instants only: a state may be ahead of
// the clock for other reasons, such as reservations. In a cluster it watches each range
// of hash slots that has a batcher.
type clockWatch struct {
	mu         sync.Mutex
	ranges     [slotRanges]clockBound
	reported   bool
	reportedAt int64 // in µs since the store was created
}

// clockBound is a lower bound of the server's time minus the time since the store was
// created, in µs.
type clockBound struct {
	known  bool
	offset int64
	at     int64 // when it was measured, in µs since the store was created
}

// observe uses a reply with the server's instant t in µs. The call was sent and its
// reply received at these times in ns since the store was created. observe returns by
// how much the clock went back if this is to be reported, and otherwise 0.
func (w *clockWatch) observe(index int, t, sent, received int64) time.Duration {
	now := received/1000 + 1
	lowest, highest := t-now, t-sent/1000
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.ranges[index]
	expected := b.offset - (now-b.at)/maxClockDrift
	back := time.Duration(expected-highest) * time.Microsecond
	steppedBack := b.known && back > minClockStep
	if !b.known || steppedBack || lowest >= expected {
		*b = clockBound{known: true, offset: lowest, at: now}
	}
	if !steppedBack || w.reported && now-w.reportedAt < clockReportInterval.Microseconds() {
		return 0
	}
	w.reported, w.reportedAt = true, now
	return back
}

// watchClock passes the instant of a reply to the clock watch.
func (s *Store) watchClock(g *group, sent, received int64) {
	if s.options.OnClockSetBack == nil || g.now != serverClock {
		return
	}
	index := 0
	if s.sharded.Load() {
		index = int(slotOf(tagOf(g.keys[0].redisKey)) >> 9)
	}
	if back := s.clocks.observe(index, g.decidedAt, sent, received); back > 0 {
		s.options.OnClockSetBack(back)
	}
}
