package rlsapi

import (
	"math"
	"slices"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

const (
	// maxCost is more than any limit: such a cost is never allowed, and its refund is
	// of everything.
	maxCost = headgate.MaxUnits + 1
	// maxCounted is the most hits of one descriptor in statistics, so that no counter
	// overflows.
	maxCounted = math.MaxUint32
)

// disposition is what is done about a descriptor.
type disposition uint8

const (
	unmatched disposition = iota // nothing: no rule applies, or another one replaces it
	unlimited                    // nothing: the rule allows everything
	counted                      // it is charged, and denies
	shadowed                     // charged separately; never denies
	refunded                     // its hits are refunded
)

// plan is what is done about one descriptor. It is made once, and does not change.
type plan struct {
	disposition disposition
	quota       bool // it denies only if all descriptors with quota do
	overflow    bool // its limits allow one hit more; see [canOverflow]
	place       int  // in the request, from 0
	key         string
	cost        int64
	hits        uint64 // cost, as statistics count it
	rule        *envoyconfig.Rule
	ruleName    string // for the log of denials; without values that clients choose
	counter     *Counter
	limits      []envoyconfig.Limit // to charge or to refund
	reported    []*pb.RateLimitResponse_RateLimit
}

// isWindow reports whether one fixed window is all that the descriptor counts in.
func (p *plan) isWindow() bool { return len(p.limits) == 1 && p.limits[0].Windows }

// planDescriptors makes the plan of every descriptor from its match.
func (r *requestState) planDescriptors(req *pb.RateLimitRequest) {
	r.descriptors = slices.Grow(r.descriptors, len(r.matches))[:len(r.matches)]
	keys, keyBegin := string(r.keys), 0
	for i := range r.matches {
		keyEnd := max(keyBegin, r.matches[i].keyEnd)
		p := &r.descriptors[i].plan
		p.place, p.key = i, keys[keyBegin:keyEnd]
		r.planOne(p, &r.matches[i], req, req.GetDescriptors()[i])
		keyBegin = keyEnd
	}
}

// planOne completes the plan of a descriptor.
func (r *requestState) planOne(p *plan, m *match, req *pb.RateLimitRequest, d *ratelimit.RateLimitDescriptor) {
	p.quota = r.handler.opts.Quota
	if m.counter == nil || m.rule != nil && r.isReplaced(m.rule) {
		return
	}
	p.disposition, p.rule, p.counter = chooseDisposition(m.rule, d.GetIsNegativeHits()), m.rule, m.counter
	hits := readHits(req, d)
	p.cost, p.hits = int64(min(hits, maxCost)), min(hits, maxCounted)
	if m.rule == nil {
		o := newOverride(d, r.handler.opts.Charge == Each)
		p.limits, p.overflow, p.reported = o.limits[:], o.overflow, o.reported[:]
		p.ruleName = overrideName(req.GetDomain(), d)
		return
	}
	p.quota = (p.quota || m.rule.Quota) && p.disposition != unlimited
	p.ruleName = m.rule.Path
	of := &r.rules.prepared[m.rule.Index]
	p.limits, p.overflow, p.reported = of.charged, of.overflow, of.reported
	if p.disposition == refunded {
		p.limits, p.overflow = of.refunded, false
	}
}

// overrideName returns the name of a descriptor that brings its own limit: the domain
// and the keys of its entries. Statistics add the values, which a log must not contain.
func overrideName(domain string, d *ratelimit.RateLimitDescriptor) string {
	name := append(make([]byte, 0, 64), domain...)
	for _, e := range d.GetEntries() {
		name = append(append(name, '.'), e.GetKey()...)
	}
	return string(name)
}

// chooseDisposition returns the disposition of a descriptor, whose rule is nil if it
// brings its own limit.
func chooseDisposition(rule *envoyconfig.Rule, negative bool) disposition {
	switch {
	case rule != nil && rule.Unlimited:
		return unlimited
	case negative:
		return refunded
	case rule != nil && rule.Shadow:
		return shadowed
	}
	return counted
}

// isReplaced reports whether a rule of the request replaces this one. Rules that are
// replaced still replace others. Unlimited rules are never replaced.
func (r *requestState) isReplaced(rule *envoyconfig.Rule) bool {
	return !rule.Unlimited && slices.ContainsFunc(r.matches, func(by match) bool {
		return by.rule != nil && slices.Contains(by.rule.Replaces, rule.Name)
	})
}

// readHits returns a descriptor's own hits, also 0, or those of the request, of which 0
// means 1.
func readHits(req *pb.RateLimitRequest, d *ratelimit.RateLimitDescriptor) uint64 {
	if own := d.GetHitsAddend(); own != nil {
		return own.GetValue()
	}
	return max(uint64(req.GetHitsAddend()), 1)
}
