package engine

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// WholePolicy is the target of a live override that replaces the own limits of a policy.
const WholePolicy = "policy"

// LiveOverride replaces the limits of some keys of a policy until the next call of
// [Engine.ApplyLive]. It precedes every override in [PolicyOptions], whatever their
// targets are. Among live overrides, and among the others, the order is: the key, a
// pattern, a network. A live override for the [WholePolicy] replaces the policy's own
// limits, so it applies to the keys without any override.
type LiveOverride struct {
	Policy string
	Target string // see [ParseTarget]
	Limits []headgate.Limit
}

// LiveError is the reason why a live override has no effect.
type LiveError struct {
	Policy, Target string
	Err            error
}

// Target is what an override applies to. Exactly one field is set.
type Target struct {
	Whole   bool         // all keys of the policy
	IsKey   bool         // the key Key
	Key     string       // may be empty
	Pattern string       // keys that match a pattern with a star
	Network netip.Prefix // keys that are addresses in a network
}

// ParseTarget parses key:TEXT, pattern:TEXT, network:PREFIX or [WholePolicy]. Its error
// contains no key.
func ParseTarget(text string) (Target, error) {
	if text == WholePolicy {
		return Target{Whole: true}, nil
	}
	if key, ok := strings.CutPrefix(text, KeyOverride); ok {
		return Target{IsKey: true, Key: key}, nil
	}
	if pattern, ok := strings.CutPrefix(text, PatternOverride); ok {
		return Target{Pattern: pattern}, checkPattern(pattern)
	}
	if network, ok := strings.CutPrefix(text, NetworkOverride); ok {
		prefix, err := parseNetwork(network)
		return Target{Network: prefix}, err
	}
	return Target{}, fmt.Errorf("must begin with %s, %s or %s, or be %q for all keys of the policy",
		KeyOverride, PatternOverride, NetworkOverride, WholePolicy)
}

func checkPattern(text string) error {
	pattern, err := routing.ParsePattern(text)
	if err == nil && pattern.IsExact() {
		err = fmt.Errorf("the pattern has no *, so it matches a single key; write it with %s", KeyOverride)
	}
	return err
}

func parseNetwork(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return prefix, fmt.Errorf("%.50q is not a network; must be a CIDR prefix such as 10.0.0.0/8 or 2001:db8::/32", text)
	case prefix.Addr().Is4In6():
		return prefix, fmt.Errorf("%.50q is a network of IPv4-mapped IPv6 addresses; must be an IPv4 network such as 10.0.0.0/8", text)
	case prefix != prefix.Masked():
		return prefix, fmt.Errorf("%.50q has bits set after the prefix length; write %s", text, prefix.Masked())
	}
	return prefix, nil
}

// add adds the limits of the keys that a target selects.
func (t *Target) add(o *PolicyOptions, limits []headgate.Limit) {
	switch {
	case t.IsKey:
		o.Overrides[t.Key] = limits
	case t.Pattern != "":
		o.Patterns[t.Pattern] = limits
	default:
		o.Networks[t.Network] = limits
	}
}

// ApplyLive replaces all live overrides atomically. They stay in effect after a call of
// [Engine.Apply]. An override whose policy does not exist, or does not accept the limits,
// has no effect until a later configuration accepts it; [ActiveConfig.IgnoredLive]
// returns these. Keys keep what they have spent. ApplyLive does no I/O.
func (e *Engine) ApplyLive(all []LiveOverride) error {
	if e.parent != nil {
		return e.parent.ApplyLive(all)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.applyLocked(e.opts, slices.Clone(all))
}

// IgnoredLive returns the live overrides that have no effect, in any order.
func (s *ActiveConfig) IgnoredLive() []LiveError { return s.ignoredLive }

// LiveOverrides returns the number of live overrides, including those without an effect.
func (s *ActiveConfig) LiveOverrides() int { return len(s.live) }

// liveByPolicy returns the indexes of the live overrides of each policy.
func (s *ActiveConfig) liveByPolicy() map[string][]int {
	all := make(map[string][]int)
	for i := range s.live {
		all[s.live[i].Policy] = append(all[s.live[i].Policy], i)
	}
	return all
}

// bindLive binds the live overrides with the given indexes. Those with an error are
// ignored.
func (b *binding) bindLive(from headgate.Policy, indexes []int) {
	if len(indexes) == 0 {
		return
	}
	from.Name = b.policy.name
	opts := PolicyOptions{
		Overrides: make(map[string][]headgate.Limit), Patterns: make(map[string][]headgate.Limit),
		Networks: make(map[netip.Prefix][]headgate.Limit),
	}
	for _, i := range indexes {
		o := &b.live[i]
		target, err := ParseTarget(o.Target)
		if err == nil {
			err = b.tryLive(from, o, &target, &opts)
		}
		if err != nil {
			b.ignoredLive = append(b.ignoredLive, LiveError{o.Policy, o.Target, err})
		}
	}
	b.policy.live = b.bindOverrides(from, &opts)
}

// tryLive binds the limits of a live override, and adds it to opts or to the policy.
func (b *binding) tryLive(from headgate.Policy, o *LiveOverride, target *Target, opts *PolicyOptions) error {
	from.Limits = o.Limits
	rules := b.bindRules(from, PolicyError{Override: o.Target})
	if len(b.errs) > 0 {
		err := b.errs[0]
		b.errs = nil
		return err
	}
	if target.Whole {
		b.policy.rules, b.policy.isReplaced = rules, true
		return nil
	}
	target.add(opts, o.Limits)
	return nil
}

// ignoreUnknownLive adds the live overrides whose policy does not exist to ignoredLive.
func (s *ActiveConfig) ignoreUnknownLive() {
	for i := range s.live {
		if o := &s.live[i]; s.policies[o.Policy] == nil {
			s.ignoredLive = append(s.ignoredLive, LiveError{o.Policy, o.Target, s.unknownPolicy(o.Policy)})
		}
	}
}
