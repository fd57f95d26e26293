package activity

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// clock is a time at the start of a slot.
var clock = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// counted are totals that a test changes.
type counted struct{ Totals }

func newCounted() *counted {
	return &counted{Totals{Policies: map[string]Counts{}, Latency: make([]uint64, 3)}}
}

// read returns a copy of the totals.
func (c *counted) read() Totals {
	copied := Totals{Policies: make(map[string]Counts, len(c.Policies)), Latency: slices.Clone(c.Latency)}
	for name, counts := range c.Policies {
		copied.Policies[name] = counts
	}
	return copied
}

func (c *counted) add(policy string, outcome int, n uint64) {
	counts := c.Policies[policy]
	counts[outcome] += n
	c.Policies[policy] = counts
}

func TestTimelineHasDifferencesBySlot(t *testing.T) {
	t.Parallel()
	c := newCounted()
	c.add("api", 0, 100) // before the start
	line := NewTimeline(c.read, []float64{0.001, 0.01}, clock)
	c.add("api", 0, 5)
	line.Tick(clock.Add(10 * time.Second))
	c.add("api", 0, 7)
	c.add("api", 1, 2)
	line.Tick(clock.Add(20*time.Second + time.Millisecond)) // the timer was late
	c.add("api", 0, 1)
	s := line.Series(clock.Add(25*time.Second), Fine, time.Time{})
	allowed, denied := s.Policies["api"][0], s.Policies["api"][1]
	if got := allowed[len(allowed)-3:]; !slices.Equal(got, []uint32{5, 7, 1}) {
		t.Errorf("allowed: got %d want 5, 7, 1", got)
	}
	if got := denied[len(denied)-3:]; !slices.Equal(got, []uint32{0, 2, 0}) {
		t.Errorf("denied: got %d want 0, 2, 0", got)
	}
	if want := clock.Add(20*time.Second - 359*10*time.Second); !s.From.Equal(want) || s.Step != 10*time.Second || len(allowed) != 360 {
		t.Errorf("got %d slots of %v from %v want 360 of 10 s from %v", len(allowed), s.Step, s.From, want)
	}
	if s := line.Series(clock.Add(25*time.Second), Coarse, time.Time{}); s.Policies["api"][0][719] != 13 || len(s.Latency) != 720 {
		t.Errorf("by minute: got %d allowed want 13", s.Policies["api"][0][719])
	}
}

// TestTimelineForgetsOldSlots: a slot is used again after an hour, also after a pause of
// the process.
func TestTimelineForgetsOldSlots(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]time.Duration{{time.Hour}, {30 * time.Minute, time.Hour}, {24 * time.Hour}} {
		c := newCounted()
		line := NewTimeline(c.read, []float64{0.001, 0.01}, clock)
		c.add("api", 0, 5)
		for _, step := range steps {
			line.Tick(clock.Add(step))
		}
		total := uint32(0)
		for _, n := range line.Series(clock.Add(steps[len(steps)-1]), Fine, time.Time{}).Policies["api"][0] {
			total += n
		}
		if total != 0 {
			t.Errorf("after %v: got %d requests want none", steps, total)
		}
	}
}

func TestTimelineWithClockSetBack(t *testing.T) {
	t.Parallel()
	c := newCounted()
	line := NewTimeline(c.read, []float64{0.001, 0.01}, clock)
	c.add("api", 0, 5)
	line.Tick(clock.Add(-time.Hour))
	if s := line.Series(clock, Fine, time.Time{}); s.Policies["api"][0][359] != 5 {
		t.Errorf("got %d want 5 in the last slot", s.Policies["api"][0][359])
	}
}

func TestTimelineIsBounded(t *testing.T) {
	t.Parallel()
	c := newCounted()
	line := NewTimeline(c.read, []float64{0.001, 0.01}, clock)
	for i := range 300 {
		c.add(fmt.Sprint("policy ", i), 0, 1)
	}
	c.add("saturated", 0, 1<<40)
	s := line.Series(clock, Fine, time.Time{})
	if len(s.Policies) != maxSeries+1 {
		t.Errorf("got %d series want %d and others", len(s.Policies), maxSeries)
	}
	if others := s.Policies[Others][0][359]; others < 100 {
		t.Errorf("others: got %d want the rest of the policies", others)
	}
}

func TestTimelineQuantiles(t *testing.T) {
	t.Parallel()
	c := newCounted()
	line := NewTimeline(c.read, []float64{0.001, 0.01}, clock)
	c.Latency = []uint64{90, 10, 0}
	l := line.Series(clock, Fine, time.Time{}).Latency[359]
	if l.Count != 100 || l.P50 < 500*time.Microsecond || l.P50 > 600*time.Microsecond || l.P99 < 9*time.Millisecond || l.P99 > 10*time.Millisecond {
		t.Errorf("got %+v want p50 near 0.55 ms and p99 near 9.1 ms", l)
	}
	c.Latency = []uint64{90, 10, 1000}
	if l = line.Series(clock, Fine, time.Time{}).Latency[359]; l.P50 != 10*time.Millisecond {
		t.Errorf("above all bounds: got %v want the last bound", l.P50)
	}
}

func TestDenialsKeepTheLast(t *testing.T) {
	t.Parallel()
	var l Denials
	for i := range 2500 {
		at := clock.Add(time.Duration(i/900) * time.Second)
		l.Add(&Denial{Time: at, Policy: fmt.Sprint(i % 2), Hash: uint64(i)})
	}
	last, omitted := l.Last(3, nil)
	if len(last) != 3 || last[0].Hash != 2499 || last[2].Hash != 2497 || omitted != 0 {
		t.Errorf("got %+v, %d omitted; want 2499, 2498, 2497", last, omitted)
	}
	one := "1"
	if last, _ = l.Last(5000, &one); len(last) != MaxDenials/2 || last[0].Hash != 2499 || last[1].Hash != 2497 {
		t.Errorf("of one policy: got %d denials want %d", len(last), MaxDenials/2)
	}
	for range 1500 {
		l.Add(&Denial{Time: clock.Add(time.Hour)})
	}
	if _, omitted = l.Last(1, nil); omitted != 500 {
		t.Errorf("got %d omitted want 500 of 1,500 in a second", omitted)
	}
}

func TestOutagesHaveNodesAndChanges(t *testing.T) {
	t.Parallel()
	var o Outages
	for i := range 60 {
		o.observe(headgate.StoreEvent{Node: "a", Unavailable: i%2 == 0, Reason: headgate.ReasonTimedOut}, clock.Add(time.Duration(i)*time.Second))
	}
	o.observe(headgate.StoreEvent{Node: "b", Unavailable: true, Reason: headgate.ReasonTimedOut}, clock.Add(time.Hour))
	nodes, events := o.Unavailable(), o.Events()
	if len(nodes) != 1 || nodes[0].Node != "b" || nodes[0].Reason != headgate.ReasonTimedOut.String() || !nodes[0].Since.Equal(clock.Add(time.Hour)) {
		t.Errorf("got nodes %+v want b", nodes)
	}
	if len(events) != maxOutageEvents || events[0].Node != "b" || events[1].Available != true || events[1].Reason != "" {
		t.Errorf("got %d events, %+v first", len(events), events[:2])
	}
}

func TestRateOfTheLastMinutes(t *testing.T) {
	t.Parallel()
	top := NewTopKeys(0)
	hit := &Hit{Hash: 1, Policy: "p", Weight: 1}
	for i := range 600 {
		top.Add(int64(time.Hour)+int64(i)*int64(100*time.Millisecond), hit) // 10 per second for a minute
	}
	for at, want := range map[time.Duration][2]float64{
		time.Hour + time.Minute: {9.9, 10.1}, time.Hour + 90*time.Second: {6.6, 6.7}, time.Hour + 121*time.Second: {0, 0},
	} {
		if got := top.Keys(int64(at))[0].PerSecond; got < want[0] || got > want[1] {
			t.Errorf("at %v: got %g per second want %g", at, got, want)
		}
	}
}

// Series from a time on has only the slots that the caller does not have.
func TestSeriesFromATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	totals := Totals{Policies: map[string]Counts{"api": {1}, "old": {1}}}
	line := NewTimeline(func() Totals { return totals }, []float64{1}, now)
	totals = Totals{Policies: map[string]Counts{"api": {3}, "old": {7}}}
	line.Tick(now.Add(time.Second))
	totals = Totals{Policies: map[string]Counts{"api": {8}, "old": {7}}}
	line.Tick(now.Add(2 * time.Second))
	end := now.Add(2500 * time.Millisecond)
	s := line.Series(end, Live, now.Add(1200*time.Millisecond))
	if got := s.Policies["api"][0]; len(got) != 2 || got[0] != 5 || got[1] != 0 || len(s.Latency) != 2 || !s.From.Equal(now.Add(time.Second)) {
		t.Errorf("from the second slot on: got %v from %v want 5 and 0", got, s.From)
	}
	if _, ok := s.Policies["old"]; ok || s.Step != time.Second {
		t.Errorf("got a policy without requests in these slots, or slots of %v", s.Step)
	}
	if s := line.Series(end, Live, now.Add(-time.Hour)); len(s.Latency) != 300 || s.Policies["old"][0][297] != 6 {
		t.Errorf("from before the first slot: got %d slots want 300", len(s.Latency))
	}
	if s := line.Series(end, Live, now.Add(time.Hour)); len(s.Latency) != 1 {
		t.Errorf("from after the last slot: got %d slots want 1", len(s.Latency))
	}
}
