package rlsapi

import (
	"math"
	"slices"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

const (
	// maxCost is 1 more than the largest limit: a charge with this cost is never
	// allowed, and a refund with this cost refunds everything.
	maxCost = headgate.MaxWindowUnits + 1
	// maxCounted is the maximum number of hits of one descriptor that statistics count,
	// so that no counter overflows.
	maxCounted = math.MaxUint32
)

// disposition is how a descriptor is processed.
type disposition uint8

const (
	unmatched disposition = iota // not charged: no rule matches, or another rule replaces the matching one
	unlimited                    // not charged: the rule allows everything
	counted                      // charged; over its limit, the request is denied
	shadowed                     // charged separately; never denied (shadow mode)
	refunded                     // hits refunded, not charged
)

// plan describes how one descriptor is processed. It does not change after
// [requestState.planDescriptors].
type plan struct {
	disposition disposition
	quota       bool            // in quota mode: denies only together with all descriptors in quota mode
	logged      *headgate.Limit // the rule's limit, if limits allow one hit more; see [canOverflow]; otherwise nil
	place       int             // index of the descriptor in the request
	key         string
	cost        int64
	hits        uint64 // number of hits in statistics; differs from cost only above maxCost or maxCounted
	rule        *envoyconfig.Rule
	ruleName    string // for the log of denials; contains no values that clients choose
	counter     *Counter
	limits      []envoyconfig.Limit // limits that the store charges or refunds
	counting    *engine.InlineLimit // limit for counting denied hits; nil if they are not counted
	blocked     []envoyconfig.Limit // limit of 1 for the store, if the limit is 0 and hits are counted
	reported    []*pb.RateLimitResponse_RateLimit
}

// isWindow reports whether the descriptor has only one limit, and this is a fixed
// window.
func (p *plan) isWindow() bool { return len(p.limits) == 1 && p.limits[0].Windows }

// planDescriptors makes the plan of every descriptor from what matched it.
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
	if len(r.descriptors) > 1 {
		r.orderBlocked()
	}
}

// planOne completes the plan p of descriptor d from its match m.
func (r *requestState) planOne(p *plan, m *match, req *pb.RateLimitRequest, d *ratelimit.RateLimitDescriptor) {
	p.quota = r.handler.opts.Quota
	if m.counter == nil || m.rule != nil && r.isReplaced(m.rule) {
		return
	}
	p.disposition, p.rule, p.counter = chooseDisposition(m.rule, d.GetIsNegativeHits()), m.rule, m.counter
	hits := readHits(req, d)
	p.cost, p.hits = int64(min(hits, maxCost)), min(hits, maxCounted)
	if m.rule == nil {
		o := newOverride(d, r.handler.opts.Charge == Each, r.handler.opts.CalendarMonths)
		p.limits, p.logged, p.reported, p.counting, p.blocked = o.limits[:], o.logged, o.reported[:], o.counting, o.blocked
		p.peekBlocked()
		p.ruleName = overrideName(req.GetDomain(), d)
		return
	}
	p.quota = (p.quota || m.rule.Quota) && p.disposition != unlimited
	p.ruleName = m.rule.Path
	of := &r.rules.prepared[m.rule.Index]
	p.limits, p.logged, p.reported = of.charged, of.logged, of.reported
	p.counting = of.counting
	if p.disposition == refunded {
		p.limits, p.logged = of.refunded, nil
		return
	}
	if p.counting != nil && isBlocked(p.limits) {
		p.blocked = of.refunded
	}
	p.peekBlocked()
}

// peekBlocked prepares a plan with a limit of 0 and 0 hits. It is over its limit after
// hits in the same window, which only the store knows.
func (p *plan) peekBlocked() {
	if p.blocked != nil && p.cost == 0 {
		p.limits, p.logged = p.blocked, &headgate.Limit{Period: p.blocked[0].Period}
	}
}

// orderBlocked prepares the plans with a limit of 0 whose hits other descriptors of the
// request must see, or must not see, because they use the same counter: the store then
// decides these plans, in the order of the request.
func (r *requestState) orderBlocked() {
	for i := range r.descriptors {
		p := &r.descriptors[i].plan
		if p.blocked == nil || !isBlocked(p.limits) {
			continue
		}
		for j := range r.descriptors {
			if o := &r.descriptors[j].plan; o.key == p.key && len(o.limits) > 0 && !isBlocked(o.limits) {
				p.limits, p.logged = p.blocked, &headgate.Limit{Period: p.blocked[0].Period}
				break
			}
		}
	}
}

// maxRuleName is the maximum length of a name that overrideName returns.
const maxRuleName = 256

// overrideName returns a name for a descriptor that contains its own limit: the domain
// and the keys of its entries, cut off at maxRuleName bytes. Names in statistics also
// have the values, which must not be logged.
func overrideName(domain string, d *ratelimit.RateLimitDescriptor) string {
	name := append(make([]byte, 0, 64), domain...)
	for _, e := range d.GetEntries() {
		if name = append(append(name, '.'), e.GetKey()...); len(name) > maxRuleName {
			break
		}
	}
	return strings.ToValidUTF8(string(name[:min(len(name), maxRuleName)]), "_")
}

// chooseDisposition returns the disposition of a descriptor. rule is nil if the
// descriptor contains its own limit; negative is whether its hits are negative.
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

// isReplaced reports whether another rule that matched in this request replaces rule. A
// replaced rule can itself replace other rules. Unlimited rules are never replaced.
func (r *requestState) isReplaced(rule *envoyconfig.Rule) bool {
	return !rule.Unlimited && slices.ContainsFunc(r.matches, func(by match) bool {
		return by.rule != nil && slices.Contains(by.rule.Replaces, rule.Name)
	})
}

// readHits returns the number of hits of descriptor d. If d has a number of its own, it
// counts, even if it is 0. Otherwise the number in the request counts, and 0 means 1.
func readHits(req *pb.RateLimitRequest, d *ratelimit.RateLimitDescriptor) uint64 {
	if own := d.GetHitsAddend(); own != nil {
		return own.GetValue()
	}
	return max(uint64(req.GetHitsAddend()), 1)
}
