package engine

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// The prefixes of the names of overrides, by what selects the keys.
const (
	KeyOverride     = "key:"
	PatternOverride = "pattern:"
	NetworkOverride = "network:"
)

// overrides are the rules that apply to some keys of a policy in place of its own rules.
type overrides struct {
	byKey    map[string][]*Rule
	patterns patterns
	networks map[netip.Prefix]*override
	lengths  []int // prefix lengths in networks, longest first
}

// override has the rules of one override.
type override struct {
	name  string // prefix and text, such as key:acme
	rules []*Rule
}

// rulesFor returns the rules of the override that applies to a key, or nil. The time does
// not depend on the number of overrides, except of patterns that begin and end with a
// star.
func (o *overrides) rulesFor(key string) []*Rule {
	if found := o.byKey[key]; found != nil {
		return found
	}
	if found := o.ofGroup(key); found != nil {
		return found.rules
	}
	return nil
}

// nameFor returns the name of the override that applies to a key, or "".
func (o *overrides) nameFor(key string) string {
	if o.byKey[key] != nil {
		return KeyOverride + key
	}
	if found := o.ofGroup(key); found != nil {
		return found.name
	}
	return ""
}

// ofGroup returns the override by pattern or network that applies to a key, or nil.
func (o *overrides) ofGroup(key string) *override {
	if found := o.patterns.of(key); found != nil || len(o.networks) == 0 {
		return found
	}
	return o.ofNetwork(key)
}

// ofNetwork returns the override with the longest prefix that contains a key, or nil.
func (o *overrides) ofNetwork(key string) *override {
	addr, bits, ok := routing.AddressOf(key)
	if !ok {
		return nil
	}
	for _, length := range o.lengths {
		if length > bits {
			continue
		}
		prefix, err := addr.Prefix(length)
		if err != nil {
			continue
		}
		if found := o.networks[prefix]; found != nil {
			return found
		}
	}
	return nil
}

// OverrideOf returns the name of the override that applies to a key of a policy, such as
// key:acme, pattern:acme-* or network:10.0.0.0/8. It returns an empty text if the
// policy's own limits apply, or for an unknown policy.
func (s *ActiveConfig) OverrideOf(policy, key string) string {
	name, _ := s.AppliedOverride(policy, key)
	return name
}

// AppliedOverride is like OverrideOf, and also reports whether the override is a live
// override; see [Engine.ApplyLive]. The name of a live override for all keys of a policy
// is [WholePolicy].
func (s *ActiveConfig) AppliedOverride(policy, key string) (name string, live bool) {
	p := s.policies[policy]
	if p == nil {
		return "", false
	}
	if p.live != nil {
		if name = p.live.nameFor(key); name != "" {
			return name, true
		}
	}
	if p.overrides != nil {
		name = p.overrides.nameFor(key)
	}
	if name == "" && p.isReplaced {
		return WholePolicy, true
	}
	return name, false
}

// bindOverrides binds all overrides of a policy. It returns nil if there are none.
func (b *binding) bindOverrides(from headgate.Policy, opts *PolicyOptions) *overrides {
	if len(opts.Overrides)+len(opts.Patterns)+len(opts.Networks) == 0 {
		return nil
	}
	o := &overrides{byKey: make(map[string][]*Rule), networks: make(map[netip.Prefix]*override)}
	bind := func(name string, limits []headgate.Limit) override {
		from.Limits = limits
		return override{name, b.shareRules(b.bindRules(from, PolicyError{Override: name}))}
	}
	for _, key := range slices.Sorted(maps.Keys(opts.Overrides)) {
		o.byKey[key] = bind(KeyOverride+key, opts.Overrides[key]).rules
	}
	for _, text := range slices.Sorted(maps.Keys(opts.Patterns)) {
		pattern, err := routing.ParsePattern(text)
		if err != nil {
			b.fail(PolicyError{Override: PatternOverride + text, Err: err})
			continue
		}
		o.patterns.all = append(o.patterns.all, patternOverride{pattern, bind(PatternOverride+text, opts.Patterns[text])})
	}
	o.patterns.index()
	for _, prefix := range slices.SortedFunc(maps.Keys(opts.Networks), netip.Prefix.Compare) {
		bound := bind(NetworkOverride+prefix.String(), opts.Networks[prefix])
		o.networks[prefix.Masked()] = &bound
		if !slices.Contains(o.lengths, prefix.Bits()) {
			o.lengths = append(o.lengths, prefix.Bits())
		}
	}
	slices.SortFunc(o.lengths, func(p, q int) int { return q - p })
	return o
}

// shareRules returns the same list for equal rules, so that many overrides with few
// limits take few cache lines.
func (b *binding) shareRules(rules []*Rule) []*Rule {
	if len(rules) == 0 || rules[0] == nil {
		return rules
	}
	for _, known := range b.lists[rules[0]] {
		if slices.Equal(known, rules) {
			return known
		}
	}
	if b.lists == nil {
		b.lists = make(map[*Rule][][]*Rule)
	}
	b.lists[rules[0]] = append(b.lists[rules[0]], rules)
	return rules
}
