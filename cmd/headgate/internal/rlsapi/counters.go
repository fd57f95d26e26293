package rlsapi

import (
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
)

// Bounds on counters that requests name. All others are counted as Others.
const (
	maxCounters  = 10_000
	maxDomains   = 100
	maxNameBytes = 1 << 10
	Others       = "others"
)

// removedRules names the counter that continues the counters of removed rules; see drop.
const removedRules = ".removed"

// counters are the counters of hits by rule, and of requests by unknown domain.
type counters struct {
	mu        sync.RWMutex
	rules     map[string]*Counter
	requested map[string]requestedCounter // by the name as requests have it
	domains   map[string]*atomic.Uint64   // by the name as requests have it
}

// requestedCounter is a counter that a request named.
type requestedCounter struct {
	counter *Counter
	// owner is the path of the rule, or the domain of the override, that the counter
	// exists for. Of several owners it is the shortest.
	owner string
}

func newCounters() counters {
	return counters{
		rules: make(map[string]*Counter), requested: make(map[string]requestedCounter), domains: make(map[string]*atomic.Uint64),
	}
}

// ensureRule returns the counter of a rule of the configuration.
func (c *counters) ensureRule(path string) *Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ensure(sanitize(path))
}

// ensure returns the counter of a name, and makes it if there is none.
func (c *counters) ensure(name string) *Counter {
	if c.rules[name] == nil {
		c.rules[name] = new(Counter)
	}
	return c.rules[name]
}

// find returns the counter that a request names. A known name, or one too many,
// allocates nothing.
func (c *counters) find(name []byte, owner string) *Counter {
	c.mu.RLock()
	known := c.requested[string(name)]
	if known.counter == nil && c.isFull(len(name)) {
		known = requestedCounter{c.rules[Others], owner}
	}
	c.mu.RUnlock()
	if known.counter != nil && len(owner) >= len(known.owner) {
		return known.counter
	}
	return c.addRequested(string(name), owner)
}

func (c *counters) isFull(nameBytes int) bool {
	return len(c.requested) >= maxCounters || nameBytes > maxNameBytes
}

func (c *counters) addRequested(name, owner string) *Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.requested[name]
	if !known && c.isFull(len(name)) {
		return c.ensure(Others)
	}
	if !known || len(owner) < len(n.owner) {
		n = requestedCounter{c.ensure(sanitize(name)), strings.Clone(owner)}
		c.requested[name] = n
	}
	return n.counter
}

// countUnknownDomain counts a request for a domain that is not configured.
func (c *counters) countUnknownDomain(domain string) {
	c.mu.RLock()
	n := c.domains[domain]
	if n == nil && len(c.domains) > maxDomains {
		n = c.domains[Others]
	}
	c.mu.RUnlock()
	if n == nil {
		n = c.ensureDomain(domain)
	}
	n.Add(1)
}

func (c *counters) ensureDomain(name string) *atomic.Uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.domains) >= maxDomains && c.domains[name] == nil {
		name = Others
	}
	if c.domains[name] == nil {
		c.domains[strings.Clone(name)] = new(atomic.Uint64)
	}
	return c.domains[name]
}

var ipv4 = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// sanitize replaces what names must not contain: colons, bars, and the dots of IPv4
// addresses.
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

// dropUnused drops the counters of rules and domains that r does not have.
func (c *counters) dropUnused(r *ruleSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := map[*Counter]bool{c.rules[Others]: true}
	varies := make(map[string]bool)
	for i, rule := range r.config.Rules() {
		if counter := r.prepared[i].counter; counter != nil {
			used[counter] = true
		} else {
			varies[rule.Path] = true
		}
	}
	for name, n := range c.requested {
		if varies[n.owner] || r.config.Domain(n.owner) != nil {
			used[n.counter] = true
		} else {
			delete(c.requested, name)
		}
	}
	c.drop(used)
}

// drop removes all counters but the used ones. Prometheus shows only the sum of
// counters with the same first levels, and takes a sum that falls for a restart. Where
// a counter of a sum stays, the removed ones are therefore added up in one that stays,
// too.
func (c *counters) drop(used map[*Counter]bool) {
	stay := make(map[string]bool)
	for name, counter := range c.rules {
		if used[counter] {
			stay[cutLevels(name)] = true
		}
	}
	for name, counter := range c.rules {
		begin := cutLevels(name)
		rest := begin + removedRules
		if used[counter] || name == rest && stay[begin] {
			continue
		}
		if stay[begin] {
			c.ensure(rest).add(counter.load())
		}
		delete(c.rules, name)
	}
}

// cutLevels is the part of a name that Prometheus shows: the domain and two levels.
func cutLevels(name string) string {
	end := 0
	for range 3 {
		next := strings.IndexByte(name[end:], '.')
		if next < 0 {
			return name
		}
		end += next + 1
	}
	return name[:end-1]
}

// load returns the numbers of all counters.
func (c *counters) load() (rules map[string]Counts, domains map[string]uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	rules, domains = make(map[string]Counts, len(c.rules)), make(map[string]uint64, len(c.domains))
	for name, counter := range c.rules {
		rules[name] = counter.load()
	}
	for name, n := range c.domains {
		domains[sanitize(name)] += n.Load()
	}
	return rules, domains
}
