package demo

import (
	"math"
	"testing"
	"time"
)

// TestPace simulates seconds of steady traffic: the number of requests matches the
// rate, evenly spread.
func TestPace(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1e9, 0)
	for _, rate := range []float64{0.1, 0.7, 4, 333.3, 2000, 10_000} {
		p := pace{begin: begin, rate: rate}
		sent, now := 0, begin
		for end := begin.Add(20 * time.Second); now.Before(end); {
			n := p.due(now)
			if most := int(math.Ceil(rate*streamPause.Seconds())) + 1; n > most {
				t.Fatalf("%v/s: %d at once, want at most %d", rate, n, most)
			}
			sent += n
			if next := p.next(); next.After(now) {
				now = next
			}
		}
		if want := rate * 20; math.Abs(float64(sent)-want) > max(2, rate*0.003) {
			t.Errorf("%v/s for 20 s: got %d requests want %v", rate, sent, want)
		}
	}
}

// TestPaceSkipsLateRequests: requests that a slow store delays are skipped, not sent in
// a burst.
func TestPaceSkipsLateRequests(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1e9, 0)
	p := pace{begin: begin, rate: 1000}
	p.due(begin)
	if n := p.due(begin.Add(10 * time.Second)); n != 1 {
		t.Errorf("ten seconds late: got %d requests at once want 1", n)
	}
	if n := p.due(begin.Add(10*time.Second + 5*time.Millisecond)); n != 5 {
		t.Errorf("5 ms later: got %d want 5", n)
	}
}

func TestTotalRateIsBounded(t *testing.T) {
	t.Parallel()
	h := &Handler{}
	h.rates.Add(maxTotalRate - 100)
	if err := h.stream(&session{}, 101); err == nil {
		t.Error("one more than all pages may have: got no error")
	}
	if got := h.rates.Load(); got != maxTotalRate-100 {
		t.Errorf("after that: %d are taken want %d", got, maxTotalRate-100)
	}
}

// TestJournalIsBounded: the journal is bounded, whatever happens between two frames.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	j := &journal{}
	j.clear(&stage{tracks: []track{{gates: []*gate{{}}}}})
	for i := range int64(100_000) {
		seq := j.enter(1, 0, i*1000, 1, 1)
		o := outcome{seq: seq}
		o.decision.Allowed, o.decision.Delay = true, time.Second
		j.record(0, 0, i*1000, o)
	}
	c := &j.tallies[0][0]
	if c.allowed != 100_000 || len(c.marks) > maxMarks || len(c.outs) > maxOuts || len(j.recent()) != maxRows {
		t.Errorf("got %d allowed, %d marks, %d outs, %d rows", c.allowed, len(c.marks), len(c.outs), len(j.recent()))
	}
	marked := int64(0)
	for _, m := range c.marks {
		marked += m[1]
	}
	if marked != c.allowed {
		t.Errorf("marks stand for %d requests want all %d", marked, c.allowed)
	}
}
