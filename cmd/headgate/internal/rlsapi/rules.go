package rlsapi

import (
	"errors"
	"fmt"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// ErrConfig is what an error of [Handler.Apply] matches.
var ErrConfig = errors.New("rlsapi: configuration refused")

// ruleSet is a configuration that is ready for requests.
type ruleSet struct {
	config   *envoyconfig.Config
	prepared []preparedRule // by the index of the rule
}

// Apply replaces the whole configuration, or returns an error and changes nothing: a rule
// may require what the store cannot do. Requests in progress end under the
// configuration that they began with. Counters of removed rules are dropped, and all
// others continue. It does no I/O.
func (h *Handler) Apply(c *envoyconfig.Config) error {
	h.applying.Lock()
	defer h.applying.Unlock()
	if err := h.verify(c); err != nil {
		h.Refused()
		return err
	}
	next := &ruleSet{config: c, prepared: make([]preparedRule, len(c.Rules()))}
	for i, r := range c.Rules() {
		next.prepared[i] = prepare(r, h.opts.Charge == Each)
		if !r.StatVaries() {
			next.prepared[i].counter = h.stats.counters.ensureRule(r.Path)
		}
	}
	h.rules.Store(next)
	h.stats.counters.dropUnused(next)
	h.stats.loads.Add(1)
	h.publishHealth()
	return nil
}

// verify returns an error about the first rule that requires what the store cannot do.
func (h *Handler) verify(c *envoyconfig.Config) error {
	snapshot := h.engine.ActiveConfig()
	for _, r := range c.Rules() {
		for j := range r.Limits {
			if own := r.Limits[j].Inline; own != nil {
				if err := snapshot.CheckInline(own); err != nil {
					return fmt.Errorf("%w: %s: %w", ErrConfig, r.Path, err)
				}
			}
		}
	}
	return nil
}

// Refused counts a configuration that was rejected, for [Handler.Stats].
func (h *Handler) Refused() { h.stats.refusals.Add(1) }

// Dump returns one line for each rule, in the order of the files, as
// envoyproxy/ratelimit's /rlconfig does. It returns nil if there is no configuration.
func (h *Handler) Dump() []string {
	rules := h.rules.Load()
	if rules == nil {
		return nil
	}
	lines := make([]string, 0, len(rules.config.Rules()))
	for _, r := range rules.config.Rules() {
		unit, requests := "UNKNOWN", uint32(0)
		if len(r.Limits) > 0 {
			unit, requests = strings.ToUpper(r.Limits[0].Unit.String()), r.Limits[0].Requests
		}
		lines = append(lines, fmt.Sprintf("%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t",
			r.Path, unit, requests, r.Shadow, r.Quota))
	}
	return lines
}

// preparedRule is what is the same in every request that a rule matches.
type preparedRule struct {
	charged  []envoyconfig.Limit // for hits
	overflow bool                // charged allows one hit more than the rule
	refunded []envoyconfig.Limit // for negative hits
	reported []*pb.RateLimitResponse_RateLimit
	counter  *Counter // nil if its name depends on the request
}

// prepare makes a rule ready, but for its counter. With each, descriptors are charged
// separately.
func prepare(rule *envoyconfig.Rule, each bool) preparedRule {
	p := preparedRule{charged: rule.Limits, refunded: rule.Limits}
	for i := range rule.Limits {
		p.reported = append(p.reported, new(pb.RateLimitResponse_RateLimit))
		report(p.reported[i], rule.Name, &rule.Limits[i])
	}
	switch {
	case isBlocked(rule.Limits):
		l, own := rule.Limits[0], makeRefund(&rule.Limits[0])
		l.Inline = &own
		p.refunded = []envoyconfig.Limit{l}
	case each && canOverflow(rule.Limits):
		l, own := rule.Limits[0], *rule.Limits[0].Inline
		own.Limit.Rate++
		l.Inline = &own
		p.charged, p.overflow = []envoyconfig.Limit{l}, true
	}
	return p
}

// override is the limit that a descriptor brings, in one piece of memory. Responses
// keep it.
type override struct {
	limits   [1]envoyconfig.Limit
	own      engine.InlineLimit
	overflow bool
	reported [1]*pb.RateLimitResponse_RateLimit
	report   pb.RateLimitResponse_RateLimit
}

// newOverride makes the override of a descriptor ready to be charged, or to be refunded.
func newOverride(d *ratelimit.RateLimitDescriptor, each bool) *override {
	o := new(override)
	requests := d.GetLimit().GetRequestsPerUnit()
	l := &o.limits[0]
	*l, o.own = envoyconfig.MakeLimit(requests, envoyconfig.Unit(d.GetLimit().GetUnit()).Length())
	o.reported[0] = &o.report
	report(&o.report, "", l)
	switch {
	case requests > 0:
		l.Inline = &o.own
	case d.GetIsNegativeHits():
		o.own, l.Inline = makeRefund(l), &o.own
	}
	if each && !d.GetIsNegativeHits() && canOverflow(o.limits[:]) {
		o.own.Limit.Rate++
		o.overflow = true
	}
	return o
}

// makeRefund makes the limit that negative hits of a limit of 0 are refunded to: the
// window may have counted hits while the limit was larger.
func makeRefund(blocked *envoyconfig.Limit) engine.InlineLimit {
	_, own := envoyconfig.MakeLimit(1, blocked.Period)
	return own
}

// canOverflow reports whether limits are one fixed window to which one hit more can be
// charged.
//
// With [Each], envoyproxy/ratelimit also counts hits that it denies, and then reports
// the limit as over, even to 0 hits. A store counts no further than a limit. It is
// therefore given a limit of one hit more: a window that has counted this hit is over.
func canOverflow(limits []envoyconfig.Limit) bool {
	return len(limits) == 1 && limits[0].Windows && limits[0].Inline != nil && limits[0].Inline.Limit.Rate < headgate.MaxUnits
}

// isBlocked reports whether limits allow nothing at all. The store is not asked about
// them.
func isBlocked(limits []envoyconfig.Limit) bool { return len(limits) == 1 && limits[0].Inline == nil }

// report writes a limit as responses report it.
func report(to *pb.RateLimitResponse_RateLimit, name string, l *envoyconfig.Limit) {
	to.Name, to.RequestsPerUnit, to.Unit = name, l.Requests, pb.RateLimitResponse_RateLimit_Unit(l.Unit)
}
