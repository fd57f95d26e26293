package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// glance is a row of the table without scripts: how many requests of three traffic
// patterns an algorithm allows under one limit.
type glance struct {
	Words words
	Once  int // of 30 simultaneous requests
	Edge  int // of ten just before the end of a window and ten just after
	Pause int // of 30 simultaneous requests, two periods after a first burst
}

// glanceSettings are the limit of that table: 10 in 10 s, with a burst of 20 for
// buckets.
func glanceSettings() Settings {
	return Settings{Rate: 10, PeriodMS: 10_000, Burst: 20, Queue: 9, Cost: 1}
}

// atAGlance decides the traffic of that table with a simulated clock.
func computeGlance(own func() headgate.Store) ([]glance, error) {
	store := own()
	defer store.Close()
	var lines []glance
	for _, w := range descriptions() {
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
