package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/headgate/headgate/cmd/headgate/internal/activity"
)

// NewTimeline returns a timeline of the requests of all APIs. It must be created before
// the first request.
func (m *Metrics) NewTimeline(now time.Time) *activity.Timeline {
	return activity.NewTimeline(m.totals, latencyBounds, now)
}

// totals returns what was counted since the start.
func (m *Metrics) totals() activity.Totals {
	m.mu.Lock()
	recorders := slices.Clone(m.recorders)
	m.mu.Unlock()
	totals := activity.Totals{Policies: make(map[string]activity.Counts), Latency: make([]uint64, len(latencyBounds)+1)}
	for _, d := range recorders {
		for name, p := range *d.policies.Load() {
			counts := totals.Policies[name]
			for o := range outcomes {
				counts[o] += p.total(o)
			}
			totals.Policies[name] = counts
		}
		addLatency(totals.Latency, d.latency)
	}
	return totals
}

// addLatency adds the numbers of durations in each bucket of a histogram.
func addLatency(to []uint64, from prometheus.Observer) {
	var written dto.Metric
	histogram, ok := from.(prometheus.Metric)
	if !ok || histogram.Write(&written) != nil {
		return
	}
	below := uint64(0)
	for i, b := range written.GetHistogram().GetBucket() {
		if i < len(latencyBounds) {
			to[i] += b.GetCumulativeCount() - below
			below = b.GetCumulativeCount()
		}
	}
	to[len(latencyBounds)] += written.GetHistogram().GetSampleCount() - below
}
