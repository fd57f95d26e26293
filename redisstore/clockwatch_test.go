package redisstore

import (
	"testing"
	"time"
)

const (
	second = int64(time.Second)
	hour   = int64(time.Hour)
)

// sample is a reply: when it was received, the round trip, and the server's clock minus
// the clock of this process, all in ns.
type sample struct{ at, roundTrip, offset int64 }

func TestClockWatch(t *testing.T) {
	t.Parallel()
	var slow []sample // a clock that is 400 ppm slower
	for i := range int64(1000) {
		slow = append(slow, sample{i * 10 * second, second / 100, -i * 10 * second / 2500})
	}
	for name, c := range map[string]struct {
		samples []sample
		want    []time.Duration
	}{
		"no step":                {[]sample{{0, second, 0}, {second, second / 2, 0}, {hour, 0, 0}}, nil},
		"slower clock":           {slow, nil},
		"forward":                {[]sample{{0, 0, 0}, {second, 0, hour}, {2 * second, 0, hour}}, nil},
		"half a second back":     {[]sample{{0, 0, 0}, {second, 0, -second / 2}}, nil},
		"slow reply":             {[]sample{{0, 0, 0}, {hour, hour, 0}, {hour + second, 0, 0}}, nil},
		"an hour back":           {[]sample{{0, 0, 0}, {second, 0, -hour}, {2 * second, 0, -hour}}, []time.Duration{time.Hour}},
		"back after a slow one":  {[]sample{{0, 0, 0}, {hour, hour, 0}, {hour + second, 0, -hour}}, []time.Duration{time.Hour}},
		"forward and back again": {[]sample{{0, 0, 0}, {second, 0, hour}, {2 * second, 0, 0}}, []time.Duration{time.Hour}},
		"twice in a minute":      {[]sample{{0, 0, 0}, {second, 0, -hour}, {2 * second, 0, -2 * hour}}, []time.Duration{time.Hour}},
		"twice":                  {[]sample{{0, 0, 0}, {second, 0, -hour}, {62 * second, 0, -2 * hour}}, []time.Duration{time.Hour, time.Hour}},
	} {
		var w clockWatch
		var got []time.Duration
		for _, s := range c.samples {
			if back := w.observe(0, (1e18+s.at+s.offset)/1000, s.at-s.roundTrip, s.at); back > 0 {
				got = append(got, back)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: got %v want %v", name, got, c.want)
			continue
		}
		for i := range got {
			if (got[i] - c.want[i]).Abs() > time.Second {
				t.Errorf("%s: got %v want %v", name, got, c.want)
			}
		}
	}
}

// Ranges of hash slots are on servers with different clocks.
func TestClockWatchRanges(t *testing.T) {
	t.Parallel()
	var w clockWatch
	for i := range int64(100) {
		for index := range w.ranges {
			if back := w.observe(index, 1e15+i*1e6-int64(index)*3600e6, i*second, i*second); back != 0 {
				t.Fatalf("range %d: got %v want no report", index, back)
			}
		}
	}
}
