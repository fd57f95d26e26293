package rlsapi

import (
	"math"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
)

// Bounds on counters whose names requests choose: what comes beyond counts under Others.
const (
	mostCounters  = 10_000
	mostDomains   = 100
	mostNameBytes = 1 << 10
	Others        = "others"
)

// Counter counts hits under one rule, by envoyproxy/ratelimit's names.
type Counter struct {
	total, over, near, within, shadow, negative atomic.Uint64
}

// Counts are what a [Counter] stood at.
type Counts struct {
	TotalHits         uint64 // of all requests that the rule was found for
	OverLimit         uint64 // beyond the limit
	NearLimit         uint64 // beyond the near limit ratio, and not beyond the limit
	WithinLimit       uint64 // of requests that were not over
	ShadowMode        uint64 // of requests that would have been over
	TotalNegativeHits uint64 // given back
}

// Snapshot is what was counted since the start.
type Snapshot struct {
	// Rules are by what envoyproxy/ratelimit calls them behind ratelimit.service.rate_limit: domain.key_value.key.
	Rules map[string]Counts
	// DomainNotFound counts requests for domains that are not configured.
	DomainNotFound map[string]uint64
	// Times are those of all requests, over gRPC and at /json, without their transport.
	Times Times
	// ConfigLoads are configurations that took effect, and ConfigErrors those that were refused.
	ConfigLoads, ConfigErrors uint64
	// StoreErrors are requests that could not be decided, and ServiceErrors those that made no sense.
	StoreErrors, ServiceErrors uint64
	// GlobalShadow counts requests that were over, and were told OK because all answers are.
	GlobalShadow uint64
}

// add adds what another counter stands at.
func (c *Counter) add(other *Counter) {
	c.total.Add(other.total.Load())
	c.over.Add(other.over.Load())
	c.near.Add(other.near.Load())
	c.within.Add(other.within.Load())
	c.shadow.Add(other.shadow.Load())
	c.negative.Add(other.negative.Load())
}

// stats are all counters.
type stats struct {
	ratio float32

	mu       sync.RWMutex
	counters map[string]*Counter
	asked    map[string]named // by the names as requests have them
	domains  map[string]*atomic.Uint64

	times times

	loads, refusals, storeErrors, serviceErrors, shadowed atomic.Uint64
}

func newStats(ratio float64) *stats {
	return &stats{
		ratio: float32(ratio), counters: make(map[string]*Counter), asked: make(map[string]named), domains: make(map[string]*atomic.Uint64),
	}
}

// counter is the one of a rule of the configuration.
func (s *stats) counter(path string) *Counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counterOf(sanitize(path))
}

// counterOf is the counter of a name, which is made if it is not there.
func (s *stats) counterOf(name string) *Counter {
	if s.counters[name] == nil {
		s.counters[name] = new(Counter)
	}
	return s.counters[name]
}

// named is a counter that a request names.
type named struct {
	counter *Counter
	by      string // the path of the rule, or the domain of the limit that was brought, for which it is there; if for several, the shortest
}

// named is a counter that a request names, for a rule by its path or for a domain. One that is known, and all those that are too many,
// allocate nothing.
func (s *stats) named(raw []byte, by string) *Counter {
	s.mu.RLock()
	n := s.asked[string(raw)]
	if n.counter == nil && (len(s.asked) >= mostCounters || len(raw) > mostNameBytes) {
		n = named{s.counters[Others], by}
	}
	s.mu.RUnlock()
	if n.counter != nil && len(by) >= len(n.by) {
		return n.counter
	}
	return s.newNamed(string(raw), by)
}

func (s *stats) newNamed(raw, by string) *Counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, known := s.asked[raw]
	if !known && (len(s.asked) >= mostCounters || len(raw) > mostNameBytes) {
		return s.counterOf(Others)
	}
	if !known || len(by) < len(n.by) {
		n = named{s.counterOf(sanitize(raw)), strings.Clone(by)}
		s.asked[raw] = n
	}
	return n.counter
}

func (s *stats) domainNotFound(domain string) {
	s.mu.RLock()
	n := s.domains[domain]
	if n == nil && len(s.domains) > mostDomains {
		n = s.domains[Others]
	}
	s.mu.RUnlock()
	if n == nil {
		n = s.newDomain(sanitize(domain))
	}
	n.Add(1)
}

func (s *stats) newDomain(name string) *atomic.Uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.domains) >= mostDomains && s.domains[name] == nil {
		name = Others
	}
	if s.domains[name] == nil {
		s.domains[name] = new(atomic.Uint64)
	}
	return s.domains[name]
}

var ipv4 = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// sanitize is a name without what statistics do not take: colons, bars, and the points of addresses.
func sanitize(name string) string {
	name = strings.NewReplacer(":", "_", "|", "_").Replace(name)
	if strings.Count(name, ".") < 3 {
		return strings.Clone(name)
	}
	return ipv4.ReplaceAllStringFunc(name, func(s string) string {
		if _, err := netip.ParseAddr(s); err != nil {
			return s
		}
		return strings.ReplaceAll(s, ".", "_")
	})
}

func (s *stats) configLoad(ok bool) {
	if ok {
		s.loads.Add(1)
	} else {
		s.refusals.Add(1)
	}
}

func (s *stats) serviceError(store bool) {
	if store {
		s.storeErrors.Add(1)
	} else {
		s.serviceErrors.Add(1)
	}
}

func (s *stats) globalShadow() { s.shadowed.Add(1) }

// count counts the hits of a request that was answered.
func (s *stats) count(c *call) {
	for i := range c.items {
		it := &c.items[i]
		if it.counter == nil || it.part == unlimited || it.part == unmatched {
			continue
		}
		if it.part == refunded {
			it.counter.negative.Add(it.hits)
			continue
		}
		s.countItem(it, !it.over && !c.spared)
	}
}

// countItem splits hits into those that were near the limit and those beyond it, as envoyproxy/ratelimit does: one request may have some of
// each. What is left was told behind them if they were charged.
func (s *stats) countItem(it *item, charged bool) {
	t := it.tightest()
	limit, hits := it.capacity(t), int64(it.hits)
	near := int64(math.Floor(float64(float32(limit) * s.ratio)))
	before := limit - it.decisions[t].Remaining + it.ahead
	if charged {
		before -= hits
	}
	after := before + hits
	it.counter.total.Add(it.hits)
	if it.over {
		it.counter.over.Add(uint64(max(0, min(hits, after-limit))))
		it.counter.near.Add(uint64(max(0, limit-max(near, before))))
		if it.part == watched {
			it.counter.shadow.Add(it.hits)
		}
		return
	}
	it.counter.near.Add(uint64(max(0, min(hits, after-near))))
	it.counter.within.Add(it.hits)
}

// Snapshot is what was counted since the start. Counters go on meanwhile: it is of no one instant.
func (h *Handler) Snapshot() Snapshot {
	s := h.stats
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := Snapshot{
		Rules:          make(map[string]Counts, len(s.counters)),
		DomainNotFound: make(map[string]uint64, len(s.domains)),
		ConfigLoads:    s.loads.Load(),
		ConfigErrors:   s.refusals.Load(),
		Times:          s.times.all(),
		StoreErrors:    s.storeErrors.Load(),
		ServiceErrors:  s.serviceErrors.Load(),
		GlobalShadow:   s.shadowed.Load(),
	}
	for name, c := range s.counters {
		all.Rules[name] = Counts{
			c.total.Load(), c.over.Load(), c.near.Load(), c.within.Load(), c.shadow.Load(), c.negative.Load(),
		}
	}
	for name, n := range s.domains {
		all.DomainNotFound[name] = n.Load()
	}
	return all
}
