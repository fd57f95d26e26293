package engine

import (
	"fmt"

	"github.com/headgate/headgate"
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

func (s *Snapshot) bindPolicy(name string, from headgate.Policy, terms Terms, last *Snapshot) (*policy, error) {
	if name == "" || from.Name != "" && from.Name != name {
		return nil, fmt.Errorf("%w: it is listed as %q and calls itself %q", headgate.ErrInvalidPolicy, name, from.Name)
	}
	from.Name = name
	if err := terms.Shadow.validate(); err != nil {
		return nil, err
	}
	p := &policy{name: name, watches: terms.Shadow > 0, below: (All - terms.Shadow).of64()}
	var err error
	if p.rules, err = s.bindRules(from, last); err != nil {
		return nil, err
	}
	if len(terms.Overrides) > 0 {
		p.overrides = make(map[string][]*Rule, len(terms.Overrides))
	}
	for key, limits := range terms.Overrides {
		from.Limits = limits
		if p.overrides[key], err = s.bindRules(from, last); err != nil {
			return nil, fmt.Errorf("an override: %w", err)
		}
	}
	return p, nil
}

// bindRules makes a policy's rules ready, each once: many overrides may be of the same limits.
func (s *Snapshot) bindRules(from headgate.Policy, last *Snapshot) ([]*Rule, error) {
	if err := from.Validate(); err != nil {
		return nil, err
	}
	rules := from.Rules()
	bound := make([]*Rule, len(rules))
	for i, rule := range rules {
		r := s.rules[rule]
		if r == nil && last != nil {
			r = last.rules[rule]
		}
		if r == nil {
			var err error
			if r, err = bind(s.store, rule); err != nil {
				return nil, err
			}
			r.Policy = from.Name
		}
		s.rules[rule], bound[i] = r, r
	}
	return bound, nil
}
