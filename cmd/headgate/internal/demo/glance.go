package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// glance is a row of the table that the page shows without scripts. It holds how many
// requests an algorithm allows for three traffic patterns under the same limit.
type glance struct {
	Words words
	Once  int // allowed requests of 30 simultaneous ones
	Edge  int // allowed requests of ten just before the end of a window and ten just after it
	Pause int // allowed requests of 30 simultaneous ones, two periods after a first burst
}

// glanceSettings returns the limit in the table without scripts: 10 in 10 s, with a
// burst of 20 for buckets.
func glanceSettings() Settings {
	return Settings{Rate: 10, PeriodMS: 10_000, Burst: 20, Queue: 9, Cost: 1}
}

// computeGlance computes the table without scripts. It uses a new store from own, and a
// simulated clock.
func computeGlance(own func() headgate.Store) ([]glance, error) {
	store := own()
	defer store.Close()
	var lines []glance
	for _, w := range descriptions() {
		limiter, err := headgate.New(store, glanceSettings().policy(w.Name), nil)
		if err != nil {
			return nil, fmt.Errorf("demo: %s: %w", w.Name, err)
		}
		const edge = 1_000_000 * headgate.Instant(10_000_000) // start of a window of 10 s
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
