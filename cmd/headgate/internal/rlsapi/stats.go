package rlsapi

import (
	"math"
	"sync/atomic"
)

// Counter counts the hits of one rule. Its fields correspond to counters of
// envoyproxy/ratelimit.
type Counter struct {
	total, over, near, within, shadow, negative, local atomic.Uint64
}

// Counts are the values of a [Counter].
type Counts struct {
	TotalHits         uint64 // hits in all requests that the rule matched
	OverLimit         uint64 // hits above the limit
	NearLimit         uint64 // hits above the near-limit ratio, and not above the limit
	WithinLimit       uint64 // hits in requests that were not over the limit
	ShadowMode        uint64 // hits above the limit that shadow mode allowed
	TotalNegativeHits uint64 // refunded hits
	// OverLimitWithLocalCache are those of OverLimit that were not counted in the window,
	// because of [Options].LocalDenials.
	OverLimitWithLocalCache uint64
}

// Stats are the counts since the handler was created.
type Stats struct {
	// Rules are the counts by name. A name has the form domain.key_value.key, as in
	// envoyproxy/ratelimit.
	Rules map[string]Counts
	// DomainNotFound counts the descriptors of requests by domain, for domains that are
	// not in the configuration.
	DomainNotFound map[string]uint64
	// Times are the durations of all requests over gRPC and at /json, without the time
	// for their transmission.
	Times Times
	// ConfigLoads is the number of configurations that took effect, and ConfigErrors
	// the number of rejected configurations.
	ConfigLoads, ConfigErrors uint64
	// StoreErrors is the number of requests for which the store made no decision, or
	// not in time. ServiceErrors is the number of invalid requests and of requests
	// while no configuration was loaded.
	StoreErrors, ServiceErrors uint64
	// GlobalShadow is the number of requests over their limits that were allowed only
	// because of [Options].Shadow.
	GlobalShadow uint64
	// Quotas are the counts of the rate limit quota service.
	Quotas QuotaStats
}

func (c *Counter) load() Counts {
	return Counts{c.total.Load(), c.over.Load(), c.near.Load(), c.within.Load(), c.shadow.Load(), c.negative.Load(), c.local.Load()}
}

func (c *Counter) add(n Counts) {
	c.total.Add(n.TotalHits)
	c.over.Add(n.OverLimit)
	c.near.Add(n.NearLimit)
	c.within.Add(n.WithinLimit)
	c.shadow.Add(n.ShadowMode)
	c.negative.Add(n.TotalNegativeHits)
	c.local.Add(n.OverLimitWithLocalCache)
}

// stats are all statistics of a handler.
type stats struct {
	ratio    float32 // near-limit ratio
	times    times
	counters counters
	quotas   quotas

	loads, refusals, storeErrors, serviceErrors, shadowed atomic.Uint64
}

// countHits counts the hits of a request in the counters of its rules. charged is false
// if the store only peeked and charged nothing.
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

// splitHits divides the hits of d into hits near the limit and hits above it, and
// counts them, like envoyproxy/ratelimit. A single request may have both. charged is
// whether the hits were charged; if so, Remaining is the number of units after the
// charge.
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
		above := uint64(max(0, min(hits, after-limit)))
		d.counter.over.Add(above)
		d.counter.near.Add(uint64(max(0, limit-max(near, before))))
		if d.disposition == shadowed {
			d.counter.shadow.Add(above)
		}
		if d.isLocal {
			d.counter.local.Add(above)
		}
		return
	}
	d.counter.near.Add(uint64(max(0, min(hits, after-near))))
	d.counter.within.Add(d.hits)
}

// Stats returns the counts since the handler was created. The counts are not read at
// the same instant.
func (h *Handler) Stats() Stats {
	s := &h.stats
	all := Stats{
		ConfigLoads:   s.loads.Load(),
		ConfigErrors:  s.refusals.Load(),
		Times:         s.times.load(),
		StoreErrors:   s.storeErrors.Load(),
		ServiceErrors: s.serviceErrors.Load(),
		GlobalShadow:  s.shadowed.Load(),
		Quotas:        s.quotas.load(),
	}
	all.Rules, all.DomainNotFound = s.counters.load()
	return all
}
