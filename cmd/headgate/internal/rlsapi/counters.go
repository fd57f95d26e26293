package rlsapi

import (
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
)

// Limits on the counters and domain names that requests create. Beyond them, hits are
// counted under the name Others.
const (
	maxCounters  = 10_000
	maxDomains   = 100
	maxNameBytes = 1 << 10
	Others       = "others"
)

// RemovedRules is the suffix of the name of a counter that sums the counters of removed
// rules. They were counted before, under the names of the rules.
const RemovedRules = ".removed"

// counters holds the hit counters of rules, and the request counters of unknown
// domains.
type counters struct {
	mu        sync.RWMutex
	rules     map[string]*Counter
	requested map[string]requestedCounter // key: the name in the request, not sanitized
	domains   map[string]*atomic.Uint64   // key: the name in the request, not sanitized
}

// requestedCounter is a counter whose name came from a request.
type requestedCounter struct {
	counter *Counter
	// owner is the reason why the counter exists: the path of a rule, or the domain of
	// a descriptor with its own limit. If several have the counter, owner is the
	// shortest string.
	owner string
}

func newCounters() counters {
	return counters{
		rules: make(map[string]*Counter), requested: make(map[string]requestedCounter), domains: make(map[string]*atomic.Uint64),
	}
}

// ensureRule returns the counter of a rule in the configuration, and creates it if
// necessary.
func (c *counters) ensureRule(path string) *Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ensure(sanitize(path))
}

// ensure returns the counter with the given name, and creates it if necessary. The
// caller holds c.mu.
func (c *counters) ensure(name string) *Counter {
	if c.rules[name] == nil {
		c.rules[name] = new(Counter)
	}
	return c.rules[name]
}

// find returns the counter for a name from a request, and creates it if necessary. It
// allocates nothing if the counter exists, or if the maximum number of counters is
// reached and it returns the counter Others.
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

// countUnknownDomain counts the descriptors of a request whose domain is not in the
// configuration.
func (c *counters) countUnknownDomain(domain string, descriptors int) {
	if len(domain) > maxNameBytes {
		domain = Others
	}
	c.mu.RLock()
	n := c.domains[domain]
	if n == nil && len(c.domains) > maxDomains {
		n = c.domains[Others]
	}
	c.mu.RUnlock()
	if n == nil {
		n = c.ensureDomain(domain)
	}
	n.Add(uint64(descriptors))
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

// sanitize replaces what names of counters must not contain by underscores: colons,
// vertical bars, the dots of IPv4 addresses, and bytes that are not UTF-8.
func sanitize(name string) string {
	name = strings.ToValidUTF8(strings.NewReplacer(":", "_", "|", "_").Replace(name), "_")
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

// dropUnused drops the counters that belong to no rule and no domain of r.
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

// drop removes all counters except those in used. Prometheus shows one sum for all
// counters whose names start with the same domain and two levels, and interprets a
// decreasing sum as a restart. As long as one counter of a sum remains, drop therefore
// adds the values of the removed ones to a counter with the suffix RemovedRules.
func (c *counters) drop(used map[*Counter]bool) {
	stay := make(map[string]bool)
	for name, counter := range c.rules {
		if used[counter] {
			stay[cutLevels(name)] = true
		}
	}
	for name, counter := range c.rules {
		begin := cutLevels(name)
		rest := begin + RemovedRules
		if used[counter] || name == rest && stay[begin] {
			continue
		}
		if stay[begin] {
			c.ensure(rest).add(counter.load())
		}
		delete(c.rules, name)
	}
}

// cutLevels returns the start of a counter's name that Prometheus shows: the domain and
// two levels.
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

// load returns the values of all counters, by name.
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
