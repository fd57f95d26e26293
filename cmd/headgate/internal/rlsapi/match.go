package rlsapi

import (
	"slices"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/internal/key"
)

// match is the rule or the limit that applies to one descriptor. The zero value means
// that nothing applies.
type match struct {
	rule    *envoyconfig.Rule // nil if the descriptor contains its own limit, or if nothing applies
	counter *Counter
	keyEnd  int // end of this descriptor's key in requestState.keys; it begins at the end of the previous key
}

// matchDescriptors finds the limit that each descriptor itself contains, or else the rule
// of the configuration that applies to it. If the domain is unknown, nothing applies to
// any descriptor.
func (r *requestState) matchDescriptors(req *pb.RateLimitRequest) {
	n := len(req.GetDescriptors())
	r.keys, r.matches = r.keys[:0], slices.Grow(r.matches[:0], n)[:n]
	domain := r.rules.config.Domain(req.GetDomain())
	if domain == nil {
		r.handler.stats.counters.countUnknownDomain(req.GetDomain(), n)
		return
	}
	for i, d := range req.GetDescriptors() {
		r.entries = r.entries[:0]
		for _, e := range d.GetEntries() {
			r.entries = append(r.entries, envoyconfig.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		m := &r.matches[i]
		if r.isOverride(d) {
			m.counter = r.matchOverride(domain)
		} else {
			m.rule, m.counter = r.matchRule(domain)
		}
		m.keyEnd = len(r.keys)
	}
}

// isOverride reports whether descriptor d contains a limit that can be enforced. Its unit
// may be invalid, or the store may not support it. The rules then apply, as if d had no
// limit, because Envoy can read the limit from what its client sends.
func (r *requestState) isOverride(d *ratelimit.RateLimitDescriptor) bool {
	own := d.GetLimit()
	if own == nil {
		return false
	}
	period := envoyconfig.Unit(own.GetUnit()).Length()
	if period == 0 {
		return false
	}
	_, inline := envoyconfig.MakeLimit(max(1, own.GetRequestsPerUnit()), period, false)
	return r.snapshot.CheckInline(&inline) == nil
}

// matchRule finds the rule that matches r.entries and the rule's counter, and appends
// the key of the entries to r.keys. Both results are nil if no rule matches.
func (r *requestState) matchRule(domain *envoyconfig.Domain) (*envoyconfig.Rule, *Counter) {
	rule := r.matcher.Match(domain, r.entries)
	if rule == nil {
		return nil, nil
	}
	r.appendKey(domain, true)
	counter := r.rules.prepared[rule.Index].counter
	if counter == nil {
		r.name = r.matcher.AppendStat(r.name[:0], rule)
		counter = r.handler.stats.counters.find(r.name, rule.Path)
	}
	return rule, counter
}

// matchOverride finds the counter for a descriptor that contains its own limit, and
// appends the descriptor's key to r.keys.
func (r *requestState) matchOverride(domain *envoyconfig.Domain) *Counter {
	r.appendKey(domain, false)
	r.name = envoyconfig.AppendPath(r.name[:0], domain.Name(), r.entries)
	return r.handler.stats.counters.find(r.name, domain.Name())
}

// appendKey appends to r.keys the key for r.entries: the domain and all entries joined,
// or a hash of them if they are long.
func (r *requestState) appendKey(domain *envoyconfig.Domain, matched bool) {
	begin := len(r.keys)
	r.keys = key.AppendEscaped(r.keys, domain.Name())
	for i := range r.entries {
		value := r.entries[i].Value
		if matched {
			// If the rule shares one counter for all values, this is the rule's
			// pattern, otherwise the request's value.
			value = r.matcher.Value(i)
		}
		r.keys = key.AppendEscaped(append(r.keys, '+'), r.entries[i].Key)
		r.keys = key.AppendEscaped(append(r.keys, '+'), value)
	}
	r.keys = key.Bound(r.keys, begin)
}
