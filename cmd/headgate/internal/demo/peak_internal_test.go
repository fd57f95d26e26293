package demo

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// TestPeak: the most units in any period are counted exactly, and requests that may be a
// period apart are not counted together.
func TestPeak(t *testing.T) {
	t.Parallel()
	const ms = 1000
	for name, c := range map[string]struct {
		times []int64 // in ms; each decision took 2 ms
		want  int64
	}{
		"none":             {nil, 0},
		"around an end":    {[]int64{700, 760, 820, 1100, 1160, 1220}, 6},
		"spaced evenly":    {[]int64{0, 250, 500, 750, 1000, 1250, 1500}, 4},
		"one period apart": {[]int64{0, 1000, 2000}, 1},
		"nearly a period":  {[]int64{0, 997}, 2},
		"maybe a period":   {[]int64{0, 998}, 1},
	} {
		p := &peak{}
		for _, at := range c.times {
			p.add(time.Second, at*ms, at*ms+2*ms, 1)
		}
		if p.most != c.want {
			t.Errorf("%s: got %d in any second want %d", name, p.most, c.want)
		}
	}
}

// TestPeakIsBounded: the memory does not depend on the rate, and a new period starts a
// new count.
func TestPeakIsBounded(t *testing.T) {
	t.Parallel()
	p := &peak{}
	for us := range int64(3_000_000) {
		p.add(time.Second, us, us, 1)
	}
	if len(p.entries) > maxAdmissions+1 || p.most < 990_000 || p.most > 1_000_000 {
		t.Errorf("got %d entries and %d in a second", len(p.entries), p.most)
	}
	p.add(time.Minute, 3_000_000, 3_000_000, 7)
	if p.most != 7 {
		t.Errorf("after a change of the period: got %d want 7", p.most)
	}
}

// TestMarksHaveExtremes: what happens between two frames is in the marks.
func TestMarksHaveExtremes(t *testing.T) {
	t.Parallel()
	j := &journal{}
	j.clear(&stage{tracks: []track{{gates: []*gate{{}}}}})
	for i, remaining := range []int64{9, 8, 0, 9, 7} {
		o := outcome{seq: j.enter(1, 0, 0, 1, 1), decision: headgate.Decision{Allowed: true, Remaining: remaining}}
		j.record(0, 0, int64(i)*100, o)
		j.tallies[0][0].level(remaining)
	}
	marks := j.tallies[0][0].marks
	if len(marks) != 1 || marks[0] != (mark{0, 5, 0, 0, 0, 9}) {
		t.Errorf("got %v want one mark from 0 to 9", marks)
	}
}
