package rlsapi

import (
	"math"
	"sync/atomic"
)

// Counter counts hits under one rule. Its numbers have the names of envoyproxy/ratelimit.
type Counter struct {
	total, over, near, within, shadow, negative atomic.Uint64
}

// Counts are the numbers of a [Counter].
type Counts struct {
	TotalHits         uint64 // of all requests that the rule matched
	OverLimit         uint64 // above the limit
	NearLimit         uint64 // above the near limit ratio, and not above the limit
	WithinLimit       uint64 // of requests that were not over
	ShadowMode        uint64 // of requests that would have been over
	TotalNegativeHits uint64 // refunded
}

// Stats are the counts since the start.
type Stats struct {
	// Rules are by name, domain.key_value.key, as envoyproxy/ratelimit has it.
	Rules map[string]Counts
	// DomainNotFound counts requests for domains that are not configured.
	DomainNotFound map[string]uint64
	// Times are the durations of all requests, over gRPC and at /json, without their
	// transport.
	Times Times
	// ConfigLoads are configurations that took effect, and ConfigErrors the rejected
	// ones.
	ConfigLoads, ConfigErrors uint64
	// StoreErrors are requests that the store did not decide, or not in time.
	// ServiceErrors are invalid requests, and requests without a configuration.
	StoreErrors, ServiceErrors uint64
	// GlobalShadow counts requests over their limits that got OK because every response
	// is OK.
	GlobalShadow uint64
}

func (c *Counter) load() Counts {
	return Counts{c.total.Load(), c.over.Load(), c.near.Load(), c.within.Load(), c.shadow.Load(), c.negative.Load()}
}

func (c *Counter) add(n Counts) {
	c.total.Add(n.TotalHits)
	c.over.Add(n.OverLimit)
	c.near.Add(n.NearLimit)
	c.within.Add(n.WithinLimit)
	c.shadow.Add(n.ShadowMode)
	c.negative.Add(n.TotalNegativeHits)
}

// stats are all statistics of a handler.
type stats struct {
	ratio    float32 // near limit
	times    times
	counters counters

	loads, refusals, storeErrors, serviceErrors, shadowed atomic.Uint64
}

// countHits counts the hits of a request. Unless charged, the store was only asked
// about them.
func (s *stats) countHits(descriptors []descriptor, charged bool) {
	for i := range descriptors {
		switch d := &descriptors[i]; d.disposition {
		case counted, shadowed:
			d.splitHits(s.ratio, charged && d.verdict != over)
		case refunded:
			d.counter.negative.Add(d.hits)
		}
	}
}

// splitHits counts hits into those near the limit and those above it, as
// envoyproxy/ratelimit does: one request may have some of each. If they were charged,
// Remaining is what was left after them.
func (d *descriptor) splitHits(ratio float32, charged bool) {
	t, hits := d.tightest(), int64(d.hits)
	limit := d.decisions[t].Limit
	if d.hasOverflow() {
		limit--
	}
	near := int64(math.Floor(float64(float32(limit) * ratio)))
	before := limit - d.decisions[t].Remaining + d.costBefore
	if charged {
		before -= hits
	}
	after := before + hits
	d.counter.total.Add(d.hits)
	if d.verdict == over {
		d.counter.over.Add(uint64(max(0, min(hits, after-limit))))
		d.counter.near.Add(uint64(max(0, limit-max(near, before))))
		if d.disposition == shadowed {
			d.counter.shadow.Add(d.hits)
		}
		return
	}
	d.counter.near.Add(uint64(max(0, min(hits, after-near))))
	d.counter.within.Add(d.hits)
}

// Stats returns the counts since the start. The numbers are not of one instant.
func (h *Handler) Stats() Stats {
	s := &h.stats
	all := Stats{
		ConfigLoads:   s.loads.Load(),
		ConfigErrors:  s.refusals.Load(),
		Times:         s.times.load(),
		StoreErrors:   s.storeErrors.Load(),
		ServiceErrors: s.serviceErrors.Load(),
		GlobalShadow:  s.shadowed.Load(),
	}
	all.Rules, all.DomainNotFound = s.counters.load()
	return all
}
