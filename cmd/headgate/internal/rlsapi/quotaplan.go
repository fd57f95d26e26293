package rlsapi

import (
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// quotaPlan is what applies to a bucket.
type quotaPlan struct {
	kind    quotaKind
	limits  []envoyconfig.Limit
	key     string
	path    string // name of the rule
	counter *Counter
}

type quotaKind uint8

const (
	allowAll quotaKind = iota // no rule, or a rule that never denies
	denyAll
	leased
)

// minWindow is the shortest window, in whole milliseconds, under which a lease can last
// for the shortest assignment.
const minWindow = 1263 * time.Millisecond

func errShortWindow(window time.Duration) error {
	return fmt.Errorf("the window is %v; must be at least %v, because an assignment lasts at least one second; use algorithm: token_bucket", window, minWindow)
}

// planQuota finds the rule for a bucket. It is the rule of a descriptor with the same
// entries in any order, and its state is that of the descriptor.
func (h *Handler) planQuota(domain string, entries []envoyconfig.Entry) (p quotaPlan) {
	r := requestStates.Get().(*requestState)
	defer r.release()
	r.handler, r.rules, r.snapshot = h, h.rules.Load(), h.engine.ActiveConfig()
	d := r.rules.config.Domain(domain)
	if d == nil {
		return p
	}
	r.keys, r.entries = r.keys[:0], append(r.entries[:0], entries...)
	if r.matcher.MatchSet(d, r.entries) == nil {
		return p
	}
	rule, counter := r.matchRule(d)
	p.counter, p.path = counter, rule.Path
	switch {
	case rule.Unlimited || rule.Shadow || h.opts.Shadow || !r.isEnforced():
	case isBlocked(rule.Limits):
		p.kind = denyAll
	case slices.ContainsFunc(rule.Limits, hasShortWindow):
		p.kind = denyAll
		i := slices.IndexFunc(rule.Limits, hasShortWindow)
		h.warnQuota(p.path, errShortWindow(rule.Limits[i].Inline.Limit.Period))
	default:
		p.kind, p.limits, p.key = leased, rule.Limits, string(r.keys)
	}
	return p
}

// hasShortWindow reports whether a lease under l always ends, with its window, before the
// shortest assignment.
func hasShortWindow(l envoyconfig.Limit) bool {
	switch l.Inline.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow, headgate.SlidingLog:
		longest := headgate.LeaseResult{TTL: l.Inline.Limit.Period}
		return assignmentTTL(longest.Validity()) == 0
	}
	return false
}

// count counts the requests of a report in the metrics of the rule.
func (p *quotaPlan) count(u *quotaUsage) {
	if p.counter != nil {
		within, over := min(u.allowed, maxCounted), min(u.denied, maxCounted)
		p.counter.add(Counts{TotalHits: within + over, WithinLimit: within, OverLimit: over})
	}
}

// isPlanOf reports whether the leases of a grant are those of the plan.
func (p *quotaPlan) isPlanOf(g *grant) bool {
	return slices.EqualFunc(p.limits, g.leases, func(l envoyconfig.Limit, of quotaLease) bool {
		return *l.Inline == of.limit && p.key == of.key
	})
}

// warnQuota logs the first bucket of a rule under which nothing can be assigned.
func (h *Handler) warnQuota(rule string, err error) {
	if _, logged := h.stats.quotas.warnedRules.LoadOrStore(rule, true); !logged {
		h.opts.Log.Warn("rate limit quota cannot be assigned", "api", "envoy", "rule", rule, "error", err,
			"advice", "set algorithm: token_bucket in the rule, and use Redis, memcached or memory as the store; this warning is logged once for each rule after each reload")
	}
}
