package algo_test

import (
	"testing"

	"github.com/headgate/headgate"
)

// TestClockBehindOtherProcess lets two processes with different clocks use one bucket of
// 10/s, each once a second. The one that is behind gets nothing from B·T = 1 s on.
func TestClockBehindOtherProcess(t *testing.T) { // T15
	const second = 1_000_000
	for _, c := range []struct {
		name    headgate.Algorithm
		behind  int64
		allowed int
	}{
		{headgate.TokenBucket, second / 10, 600},
		{headgate.TokenBucket, 3 * second / 2, 0},
		{headgate.LeakyBucket, 3 * second / 2, 0},
		{headgate.TokenBucketInterval, 3 * second / 2, 600},
		{headgate.FixedWindow, 3 * second / 2, 600},
		{headgate.SlidingLog, 3 * second / 2, 600},
		{headgate.SlidingWindow, 3 * second / 2, 600},
	} {
		k, ahead, behind := keyOf(t, c.name, map[bool]string{false: "10/s", true: "10/s queue 9"}[c.name.Queues()]), 0, 0
		for i := range int64(600) {
			now := year2026 + i*second
			if k.take(now, 1).Allowed {
				ahead++
			}
			if k.take(now+second/2-c.behind, 1).Allowed {
				behind++
			}
		}
		if ahead != 600 || behind != c.allowed {
			t.Errorf("%s, a clock %d µs behind: got %d and %d of 600 allowed want 600 and %d", c.name, c.behind, ahead, behind, c.allowed)
		}
	}
}
