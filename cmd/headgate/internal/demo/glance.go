package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// glance is a line of the table that needs no script: what an algorithm admitted of three pieces of traffic under one limit.
type glance struct {
	Words words
	Once  int // of 30 requests at once
	Edge  int // of ten just before a window's edge and ten just after
	Pause int // of 30 at once, after two periods of rest behind a first burst
}

// glanceSettings are the limit of that table: 10 in 10 s, and 20 at once for buckets.
func glanceSettings() Settings {
	return Settings{Rate: 10, PeriodMS: 10_000, Burst: 20, Queue: 9, Cost: 1}
}

// atAGlance has a limiter decide the traffic of that table, by a clock that is only counted.
func atAGlance(own func() headgate.Store) ([]glance, error) {
	store := own()
	defer store.Close()
	var lines []glance
	for _, w := range described() {
		limiter, err := headgate.New(store, glanceSettings().policy(w.Name), nil)
		if err != nil {
			return nil, fmt.Errorf("demo: %s: %w", w.Name, err)
		}
		const edge = 1_000_000 * headgate.Instant(10_000_000) // a window of 10 s begins here
		count := func(key string, n int, at headgate.Instant) (admitted int) {
			for range n {
				if d, err := limiter.AllowAt(context.Background(), at.Time(), key, 1); err == nil && d.Allowed {
					admitted++
				}
			}
			return admitted
		}
		line := glance{Words: w, Once: count("once", 30, edge)}
		line.Edge = count("edge", 10, edge-200_000) + count("edge", 10, edge+200_000)
		count("pause", 30, edge)
		line.Pause = count("pause", 30, edge+headgate.Instant((20*time.Second).Microseconds()))
		lines = append(lines, line)
	}
	return lines, nil
}
