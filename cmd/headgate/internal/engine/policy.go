package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

// policy is one as it is decided by.
type policy struct {
	name      string
	rules     []*Rule
	overrides map[string][]*Rule // by key
	watches   bool               // it does not enforce every key
	below     uint64             // it enforces keys whose place is below
}

// rulesFor are the rules that hold for a key.
func (p *policy) rulesFor(key string) []*Rule {
	if len(p.overrides) > 0 {
		if rules, ok := p.overrides[key]; ok {
			return rules
		}
	}
	return p.rules
}

// enforces reports whether the policy's answers count for a key.
func (p *policy) enforces(key string) bool { return !p.watches || place(p.name, key) < p.below }

// bindPolicies makes all policies ready, or says what is wrong with each that cannot be.
func (s *ActiveConfig) bindPolicies(opts *Options, last *ActiveConfig) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(opts.Policies)) {
		b := binding{ActiveConfig: s, last: last, policy: &policy{name: name}}
		b.bind(opts.Policies[name], opts.PolicyOptions[name])
		s.policies[name] = b.policy
		errs = append(errs, b.errs...)
	}
	return errors.Join(errs...)
}

// binding makes one policy ready.
type binding struct {
	*ActiveConfig
	last   *ActiveConfig
	policy *policy
	errs   []error
}

func (b *binding) fail(e PolicyError) {
	e.Policy = b.policy.name
	b.errs = append(b.errs, &e)
}

func (b *binding) bind(from headgate.Policy, terms PolicyOptions) {
	p := b.policy
	if p.name == "" || from.Name != "" && from.Name != p.name {
		b.fail(PolicyError{Err: fmt.Errorf("%w: it is listed as %q and calls itself %q", headgate.ErrInvalidPolicy, p.name, from.Name)})
		return
	}
	from.Name = p.name
	if err := terms.Shadow.validate(); err != nil {
		b.fail(PolicyError{Err: err})
	}
	if err := keeps(b.store, from.OnStoreError); err != nil {
		b.fail(PolicyError{Field: "on_store_error", Err: err})
		return
	}
	p.watches, p.below = terms.Shadow > 0, (All - terms.Shadow).of64()
	p.rules = b.rulesOf(from, PolicyError{})
	if len(terms.Overrides) > 0 {
		p.overrides = make(map[string][]*Rule, len(terms.Overrides))
	}
	for _, key := range slices.Sorted(maps.Keys(terms.Overrides)) {
		from.Limits = terms.Overrides[key]
		p.overrides[key] = b.rulesOf(from, PolicyError{Overridden: true, Key: key})
	}
}

// rulesOf makes a policy's rules ready, each once: many overrides may be of the same limits.
func (b *binding) rulesOf(from headgate.Policy, at PolicyError) []*Rule {
	if err := from.Validate(); err != nil {
		at.Err = err
		b.fail(at)
		return nil
	}
	rules := root.Rules(from)
	bound := make([]*Rule, len(rules))
	for i, rule := range rules {
		r, err := b.ruleOf(rule)
		if err != nil {
			at.Field, at.Limit, at.Err = policyField(err), i, err
			b.fail(at)
			continue
		}
		bound[i] = r
	}
	return bound
}

// ruleOf is a rule that is known, or makes it ready.
func (b *binding) ruleOf(rule headgate.Rule) (*Rule, error) {
	r := b.rules[rule]
	if r == nil && b.last != nil {
		r = b.last.rules[rule]
	}
	if r == nil {
		var err error
		if r, err = bind(b.store, rule); err != nil {
			return nil, err
		}
		r.Policy = b.policy.name
	}
	b.rules[rule] = r
	return r, nil
}
