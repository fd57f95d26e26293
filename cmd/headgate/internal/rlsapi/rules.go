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

// ErrConfig matches, with errors.Is, every error that [Handler.Apply] returns.
var ErrConfig = errors.New("rlsapi: invalid configuration")

// ruleSet is a configuration with its rules prepared for requests.
type ruleSet struct {
	config   *envoyconfig.Config
	prepared []preparedRule // by envoyconfig.Rule.Index
}

// Apply replaces the whole configuration. It returns an error and changes nothing if a
// rule requires what the store can't do. Requests in progress are completed with the
// configuration that they began with. Counters of removed rules are dropped, and all
// other counters continue. Apply does no I/O.
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
	h.stats.quotas.warnedRules.Clear()
	h.stats.loads.Add(1)
	h.publishHealth()
	return nil
}

// verify returns an error for the first rule that requires what the store can't do.
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

// Refused counts a rejected configuration for [Handler.Stats].
func (h *Handler) Refused() { h.stats.refusals.Add(1) }

// Dump returns one line for each rule, in the order of the files, in the format of
// envoyproxy/ratelimit's /rlconfig. It returns nil if no configuration is loaded.
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

// preparedRule holds what is the same for every request that a rule matches.
type preparedRule struct {
	charged  []envoyconfig.Limit // limits for charging hits
	logged   *headgate.Limit     // the rule's limit, if charged allows one hit more; see [canOverflow]; otherwise nil
	refunded []envoyconfig.Limit // limits for refunding negative hits
	counting *engine.InlineLimit // limit for counting denied hits; nil if they are not counted
	reported []*pb.RateLimitResponse_RateLimit
	counter  *Counter // nil if the counter's name depends on the request
}

// prepare computes what is the same for every request that rule matches, except the
// counter. The parameter each is whether descriptors are charged separately, as with
// [Each].
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
		if each {
			p.counting = makeCounting(own)
		}
	case each && canOverflow(rule.Limits):
		l, own := rule.Limits[0], *rule.Limits[0].Inline
		p.counting = makeCounting(own)
		own.Limit.Rate++
		own.Lease = headgate.LeaseSettings{} // only the store knows which hit is above the limit
		l.Inline = &own
		p.charged, p.logged = []envoyconfig.Limit{l}, &rule.Limits[0].Inline.Limit
	}
	return p
}

// override holds the limit that a descriptor itself contains, in one allocation.
// Responses refer to its report.
type override struct {
	limits   [1]envoyconfig.Limit
	own      engine.InlineLimit
	counting *engine.InlineLimit
	blocked  []envoyconfig.Limit
	limit    headgate.Limit
	logged   *headgate.Limit
	reported [1]*pb.RateLimitResponse_RateLimit
	report   pb.RateLimitResponse_RateLimit
}

// newOverride converts the limit in descriptor d for charging, or for refunding if its
// hits are negative. The parameter each is whether descriptors are charged separately,
// as with [Each]; calendarMonths is [Options].CalendarMonths.
func newOverride(d *ratelimit.RateLimitDescriptor, each, calendarMonths bool) *override {
	o := new(override)
	requests := d.GetLimit().GetRequestsPerUnit()
	l := &o.limits[0]
	unit := envoyconfig.Unit(d.GetLimit().GetUnit())
	*l, o.own = envoyconfig.MakeLimit(requests, unit.Length(), calendarMonths && unit == envoyconfig.Month)
	o.reported[0] = &o.report
	report(&o.report, "", l)
	switch {
	case requests > 0:
		l.Inline = &o.own
	case d.GetIsNegativeHits():
		o.own, l.Inline = makeRefund(l), &o.own
	}
	switch {
	case !each || d.GetIsNegativeHits():
	case requests == 0:
		o.own = makeRefund(l)
		one := *l
		one.Inline = &o.own
		o.counting, o.blocked = makeCounting(o.own), []envoyconfig.Limit{one}
	case canOverflow(o.limits[:]):
		o.limit = o.own.Limit
		o.counting, o.logged = makeCounting(o.own), &o.limit
		o.own.Limit.Rate++
	}
	return o
}

// makeCounting returns a limit with the state of own that no request reaches, for
// counting the hits of a descriptor that is over its limit.
func makeCounting(own engine.InlineLimit) *engine.InlineLimit {
	own.Limit.Rate, own.Lease = headgate.MaxWindowUnits, headgate.LeaseSettings{}
	return &own
}

// makeRefund returns the limit to which negative hits are refunded if the rule's limit
// is 0. A refund is useful there, because the window may have counted hits while the
// limit was larger.
func makeRefund(blocked *envoyconfig.Limit) engine.InlineLimit {
	_, own := envoyconfig.MakeLimit(1, blocked.Period, blocked.Calendar != nil)
	return own
}

// canOverflow reports whether limits are a single fixed window whose limit can be
// raised by one hit.
//
// With [Each], envoyproxy/ratelimit also counts hits that it denies. After that, even a
// request of 0 hits is over the limit. A store never counts beyond a limit, so Headgate
// gives the store a limit that is one hit higher. A window that has counted this
// additional hit is over the rule's limit; see [descriptor.applyOverflow]. If the store
// denies that limit, too, the hits are counted with a limit that is never reached; see
// [requestState.countDenied].
func canOverflow(limits []envoyconfig.Limit) bool {
	return len(limits) == 1 && limits[0].Windows && limits[0].Inline != nil && limits[0].Inline.Limit.Rate < headgate.MaxWindowUnits
}

// isBlocked reports whether limits allow nothing: a single limit of 0. The decision is
// then made without the store.
func isBlocked(limits []envoyconfig.Limit) bool { return len(limits) == 1 && limits[0].Inline == nil }

// report fills in a limit in the form that responses contain.
func report(to *pb.RateLimitResponse_RateLimit, name string, l *envoyconfig.Limit) {
	to.Name, to.RequestsPerUnit, to.Unit = name, l.Requests, pb.RateLimitResponse_RateLimit_Unit(l.Unit)
}
