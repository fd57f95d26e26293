package memcachedstore

import (
	"math"
	"slices"
	"testing"
	"time"
)

// at returns a reading of clocks that show elapsed µs since the start and differ from the
// true time by skew µs.
func at(elapsed, skew int64) localTime {
	return localTime{wall: int64(testInstant) + elapsed + skew, elapsed: elapsed}
}

const second = int64(time.Second / time.Microsecond)

func TestClockWatch(t *testing.T) {
	t.Parallel()
	const own, other = 1, 2
	written := at(100*second, 0)
	for _, c := range []struct {
		name      string
		writer    uint64
		item, now localTime
		want      time.Duration
	}{
		{"item of a clock that is ahead", other, at(101*second, 3*second), at(102*second, 0), -2 * time.Second},
		{"ahead by the tolerance", other, at(101*second, second+250_000), at(102*second, 0), -250 * time.Millisecond},
		{"ahead by less than the tolerance", other, at(101*second, second+249_999), at(102*second, 0), 0},
		{"equal clocks", other, at(101*second, 0), at(102*second, 0), 0},
		{"item of a clock that is behind", other, at(101*second, -3*second), at(102*second, 0), 2 * time.Second},
		{"behind by the tolerance", other, at(101*second, -second-250_000), at(102*second, 0), 250 * time.Millisecond},
		{"behind by less than the tolerance", other, at(101*second, -second-249_999), at(102*second, 0), 0},
		{"own item", own, written, at(102*second, 0), 0},
		{"own item, the clock was set back", own, written, at(102*second, -10*second), -8 * time.Second},
		{"own item whose write was not confirmed, the clock was set forward", own, at(101*second, 0), at(102*second, 10*second), 0},
		{"own item whose write was not confirmed, the clock was behind", own, at(101*second, -10*second), at(102*second, 0), 0},
		{"the clock was set back, the other was right", other, at(101*second, -10*second), at(102*second, -10*second), 0},
		{"the clock was set forward, the other was right", other, at(101*second, 0), at(102*second, 10*second), 0},
		{"the monotonic clock stood still", other, at(101*second, 0), localTime{at(4000*second, 0).wall, 102 * second}, 0},
		{"latest item", other, localTime{wall: maxUnusedAt}, at(102*second, 0), -math.MaxInt64 / 1000 * 1000},
		{"earliest item", other, localTime{}, at(102*second, 0), time.Duration(written.wall) * time.Microsecond},
	} {
		var w clockWatch
		w.init("default")
		w.id = own
		w.written = written
		if got := w.observe(clockReading{c.writer, c.item.wall}, c.now); got != c.want {
			t.Errorf("%s: got %v want %v", c.name, got, c.want)
		}
	}
}

// Each direction is reported at most once a minute, whatever the wall clock shows.
func TestClockReportInterval(t *testing.T) {
	t.Parallel()
	var w clockWatch
	w.init("default")
	w.written = at(0, 0)
	behind, ahead := clockReading{1, at(3600*second, 0).wall}, clockReading{1, at(-3600*second, 0).wall}
	for _, c := range []struct {
		elapsed, skew int64
		item          clockReading
		reported      bool
	}{
		{0, 0, behind, true},
		{second, 0, behind, false},
		{second, 0, ahead, true},
		{59_999_999, -7200 * second, behind, false},
		{60 * second, -7200 * second, behind, true},
		{60 * second, 0, ahead, false},
		{61 * second, 0, ahead, true},
	} {
		if got := w.observe(c.item, at(c.elapsed, c.skew)) != 0; got != c.reported {
			t.Errorf("after %d µs, item %d: reported: got %v want %v", c.elapsed, c.item.clock-int64(testInstant), got, c.reported)
		}
	}
}

// timeToReport simulates processes with these skews from the true time until one of
// them reports, for at most limit. It fails the test if a report exceeds every
// difference between two clocks.
func timeToReport(t *testing.T, limit time.Duration, skews ...time.Duration) time.Duration {
	t.Helper()
	all := make([]clockWatch, len(skews))
	for i := range all {
		all[i].init("default")
		all[i].finish(0)
	}
	var item clockReading
	for {
		i := 0
		for j := range all {
			if all[j].next.Load() < all[i].next.Load() {
				i = j
			}
		}
		w, elapsed := &all[i], time.Duration(all[i].next.Load())
		if elapsed >= limit {
			return limit
		}
		now := at(elapsed.Microseconds(), skews[i].Microseconds())
		if item.writer != 0 {
			if skew := w.observe(item, now); skew > skews[i]-slices.Min(skews) || skew < skews[i]-slices.Max(skews) {
				t.Fatalf("skews %v: process %d reported %v", skews, i, skew)
			} else if skew != 0 {
				return elapsed
			}
		}
		item = clockReading{w.id, now.wall}
		w.written = now
		w.finish(elapsed)
	}
}

// In 99 of 100 simulations a difference of 1 s is reported within 30 s, and one of 0.5 s
// within 2 minutes. Smaller differences than the tolerance are never reported.
func TestTimeToReportClockSkew(t *testing.T) {
	t.Parallel()
	const rounds = 1000
	fleet := func(skew time.Duration) []time.Duration { return append(make([]time.Duration, 9), skew) }
	for _, c := range []struct {
		skews []time.Duration
		want  time.Duration
	}{
		{[]time.Duration{0, time.Second}, 30 * time.Second},
		{[]time.Duration{0, 500 * time.Millisecond}, 2 * time.Minute},
		{fleet(time.Second), 30 * time.Second},
		{fleet(-time.Second), 30 * time.Second},
		{fleet(500 * time.Millisecond), 2 * time.Minute},
		{fleet(-500 * time.Millisecond), 2 * time.Minute},
	} {
		var took []time.Duration
		for range rounds {
			took = append(took, timeToReport(t, time.Hour, c.skews...))
		}
		slices.Sort(took)
		t.Logf("skews %v: half of the reports within %v, 99 %% within %v", c.skews, took[rounds/2], took[rounds*99/100])
		if got := took[rounds*99/100]; got > c.want {
			t.Errorf("skews %v: 99 %% were reported within %v; want within %v", c.skews, got, c.want)
		}
	}
	for range 20 {
		if got := timeToReport(t, time.Hour, 0, 249*time.Millisecond, 100*time.Millisecond); got < time.Hour {
			t.Errorf("249 ms: got a report after %v want none", got)
		}
	}
}

func TestClockItemEncoding(t *testing.T) {
	t.Parallel()
	want := clockReading{math.MaxUint64 - 1, int64(testInstant)}
	b := want.encode()
	if got, err := decodeClock(b); err != nil || got != want {
		t.Errorf("got %v, error %v want %v", got, err, want)
	}
	state := slices.Clone(b)
	state[0] = formatState
	for _, bad := range [][]byte{nil, b[:16], append(slices.Clone(b), 0), state, clockReading{1, maxUnusedAt + 1}.encode(), clockReading{1, -1}.encode(), make([]byte, 17)} {
		if got, err := decodeClock(bad); err == nil {
			t.Errorf("%x: got %v want an error", bad, got)
		}
	}
}
