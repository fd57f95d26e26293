package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

// policy is a policy whose rules are bound to the store.
type policy struct {
	name      string
	rules     []*Rule
	overrides *overrides // nil if there are none
	live      *overrides // live overrides, which precede overrides; nil if there are none
	// isReplaced is true if rules are those of a live override of the whole policy.
	isReplaced bool
	ban        *BanRules // nil if there are no bans
	warnAt     Percent
	shadows   bool       // whether some or all keys are in shadow mode
	threshold uint64     // the policy is enforced for keys with a smaller hash
}

// rulesFor returns the rules that apply to a key.
func (p *policy) rulesFor(key string) []*Rule {
	if p.live != nil {
		if rules := p.live.rulesFor(key); rules != nil {
			return rules
		}
	}
	if p.overrides != nil {
		if rules := p.overrides.rulesFor(key); rules != nil {
			return rules
		}
	}
	return p.rules
}

// enforces reports whether the policy is enforced for key, that is, not in shadow mode.
func (p *policy) enforces(key string) bool {
	return !p.shadows || hashKey(p.name, key) < p.threshold
}

// bindPolicies binds all policies in opts. Its error joins a [PolicyError] for each
// reason why a policy can't be bound.
func (s *ActiveConfig) bindPolicies(opts *Options, last *ActiveConfig) error {
	var errs []error
	live := s.liveByPolicy()
	for _, name := range slices.Sorted(maps.Keys(opts.Policies)) {
		b := binding{ActiveConfig: s, last: last, policy: &policy{name: name}}
		b.bind(opts.Policies[name], opts.PolicyOptions[name])
		if len(b.errs) == 0 {
			b.bindLive(opts.Policies[name], live[name])
		}
		s.policies[name] = b.policy
		errs = append(errs, b.errs...)
	}
	return errors.Join(errs...)
}

// binding is the state of binding one policy.
type binding struct {
	*ActiveConfig
	last   *ActiveConfig
	policy *policy
	errs   []error
	lists  map[*Rule][][]*Rule // see shareRules
}

func (b *binding) fail(e PolicyError) {
	e.Policy = b.policy.name
	b.errs = append(b.errs, &e)
}

func (b *binding) bind(from headgate.Policy, opts PolicyOptions) {
	p := b.policy
	if p.name == "" || from.Name != "" && from.Name != p.name {
		b.fail(PolicyError{Err: fmt.Errorf("%w: the policy listed as %q has the name %q", headgate.ErrInvalidPolicy, p.name, from.Name)})
		return
	}
	from.Name = p.name
	if err := opts.Shadow.validate(); err != nil {
		b.fail(PolicyError{Err: err})
	}
	if err := validateOnStoreError(b.store, from.OnStoreError); err != nil {
		b.fail(PolicyError{Field: "on_store_error", Err: err})
		return
	}
	p.shadows, p.threshold = opts.Shadow > 0, (All - opts.Shadow).threshold()
	if err := opts.WarnAt.validate(); err != nil {
		b.fail(PolicyError{Field: "warn_at", Err: err})
	}
	p.warnAt = opts.WarnAt
	if err := b.bindBan(from, opts.Ban); err != nil {
		b.fail(PolicyError{Field: "ban", Err: err})
		return
	}
	p.rules = b.bindRules(from, PolicyError{})
	p.overrides = b.bindOverrides(from, &opts)
}

// bindRules binds the rules of a policy or of an override. Equal rules are bound only
// once, because many overrides may have the same limits. The parameter at holds the
// location for errors.
func (b *binding) bindRules(from headgate.Policy, at PolicyError) []*Rule {
	if err := from.Validate(); err != nil {
		at.Err = err
		b.fail(at)
		return nil
	}
	rules := root.Rules(from)
	bound := make([]*Rule, len(rules))
	for i, rule := range rules {
		r, err := b.bindRule(rule)
		if err != nil {
			at.Field, at.Limit, at.Err = policyField(err), i, err
			b.fail(at)
			continue
		}
		bound[i] = r
	}
	if ban := b.banOf(from.Limits[0]); ban != nil {
		bound = append(bound, ban.rule)
	}
	return bound
}

// bindRule returns the equal rule of this or the previous configuration. If there is
// none, it binds a new rule.
func (b *binding) bindRule(rule headgate.Rule) (*Rule, error) {
	r := b.rules[rule]
	if r == nil && b.last != nil {
		if r = b.last.rules[rule]; r != nil && (r.ban != b.banOf(rule.Limit) || r.warnAt != b.policy.warnAt) {
			r = nil
		}
	}
	if r == nil {
		var err error
		if r, err = bind(b.store, rule); err != nil {
			return nil, err
		}
		r.Policy, r.ban = b.policy.name, b.banOf(rule.Limit)
		r.warnAt, r.near = b.policy.warnAt, b.policy.warnAt.unitsLeft(r.Capacity())
	}
	b.rules[rule] = r
	return r, nil
}
