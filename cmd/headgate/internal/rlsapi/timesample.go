package rlsapi

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// laneSamples is the number of durations in the sample of a lane. All lanes together
// have 1,024.
const laneSamples = 128

// timeSample is a random sample of the durations that were added since the last take.
// Each of them is in the sample with the same probability. It may be used concurrently.
// A duration that is added during a take may be in the sample before it or after it.
type timeSample struct {
	seen   atomic.Uint64 // number of durations
	values [laneSamples]atomic.Int64
}

func (s *timeSample) add(d time.Duration) {
	seen := s.seen.Add(1)
	i := seen - 1
	if seen > laneSamples {
		if i = rand.Uint64N(seen); i >= laneSamples {
			return
		}
	}
	s.values[i].Store(int64(d))
}

// take returns the sample and begins a new one.
func (s *timeSample) take() SampledTimes {
	t := SampledTimes{Count: s.seen.Swap(0)}
	for i := range min(t.Count, laneSamples) {
		t.Values = append(t.Values, time.Duration(s.values[i].Load()))
	}
	return t
}

// SampledTimes is a random sample of the durations of requests.
type SampledTimes struct {
	Count  uint64 // number of requests
	Values []time.Duration
}

// TakeTimes returns samples of the durations of the requests since the last call. It
// returns several, because requests on different processors are sampled separately. It
// returns nil unless [Options].SampleTimes is set.
func (h *Handler) TakeTimes() (all []SampledTimes) {
	if h.stats.times.samples == nil {
		return nil
	}
	for i := range h.stats.times.samples {
		if t := h.stats.times.samples[i].take(); t.Count > 0 {
			all = append(all, t)
		}
	}
	return all
}
