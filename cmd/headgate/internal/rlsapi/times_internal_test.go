package rlsapi

import (
	"testing"
	"time"
)

// TestStopwatch: every request is counted, whether timed or not. After a slow request
// all are timed.
func TestStopwatch(t *testing.T) {
	t.Parallel()
	var clock time.Duration
	looks := 0
	now := func() time.Duration { looks++; return clock }
	s, counted := stopwatch{lane: 3}, new(times)
	for i, step := range []struct {
		took, counted time.Duration
		measured      bool
	}{
		{10 * time.Microsecond, 10 * time.Microsecond, true}, // the first of all
		{99 * time.Microsecond, 10 * time.Microsecond, false},
		{1, 10 * time.Microsecond, false},
		{1, 10 * time.Microsecond, false},
		{1, 10 * time.Microsecond, false},
		{1, 10 * time.Microsecond, false},
		{1, 10 * time.Microsecond, false},
		{1, 10 * time.Microsecond, false},
		{20 * time.Second, 20 * time.Second, true}, // the eighth behind it
		{5 * time.Millisecond, 5 * time.Millisecond, true},
		{5*time.Millisecond + 1, 5*time.Millisecond + 1, true},
		{0, 1, true}, // a clock that stands still
		{9, 1, false},
	} {
		clock, looks = clock+time.Second, 0
		s.start(now)
		clock += step.took
		took := s.stop(now)
		counted.add(s.lane, took)
		if took != step.counted || looks > 0 != step.measured {
			t.Errorf("request %d, which took %v: counted as %v with %d looks at the clock, want %v, measured %v", i+1, step.took, took, looks, step.counted, step.measured)
		}
	}
	all := counted.load()
	if want := 20*time.Second + 10*time.Millisecond + 80*time.Microsecond + 3; all.Count != 13 || all.Sum != want {
		t.Errorf("got %d requests and %v in all, want 13 and %v", all.Count, all.Sum, want)
	}
	for bound, want := range map[time.Duration]uint64{
		25 * time.Microsecond: 10, 2500 * time.Microsecond: 10, 5 * time.Millisecond: 11, 10 * time.Millisecond: 12, 10 * time.Second: 12,
	} {
		if got := all.UpTo[bound]; got != want {
			t.Errorf("up to %v: got %d want %d", bound, got, want)
		}
	}
}

func BenchmarkStopwatch(b *testing.B) {
	s, counted := stopwatch{lane: 1, last: 1}, new(times)
	b.ReportAllocs()
	for b.Loop() {
		s.start(moment)
		counted.add(s.lane, min(fast, s.stop(moment)))
	}
}
