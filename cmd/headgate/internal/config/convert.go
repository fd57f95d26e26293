package config

import (
	"net/netip"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// Engine returns the options of the engine that the configuration specifies.
func (c *Config) Engine() *engine.Options {
	opts := &engine.Options{
		Policies:      make(map[string]headgate.Policy, len(c.Policies)),
		PolicyOptions: make(map[string]engine.PolicyOptions),
		OnStoreError:  c.OnStoreError,
		Enforcement:   c.Enforcement,
		MaxKeyBytes:   c.MaxKeyBytes,
		MaxChecks:     c.MaxChecks,

		MaxExtendChecks: c.MaxExtendChecks,
		TrustedProxies:  c.Proxies(),
	}
	keys := make(map[string]routing.Key, len(c.Policies))
	for name, p := range c.Policies {
		opts.Policies[name], opts.PolicyOptions[name] = p.policy(name), p.options()
		keys[name] = p.Key
	}
	opts.Routes = routing.NewTable(routesOf(c.Routes), keys, c.trustedHeaders()...)
	return opts
}

// Proxies returns the networks of trusted proxies.
func (c *Config) Proxies() []netip.Prefix {
	networks := make([]netip.Prefix, len(c.TrustedProxies))
	for i, n := range c.TrustedProxies {
		networks[i] = n.Prefix
	}
	return networks
}

// policy returns the policy in the form that package headgate defines.
func (p *Policy) policy(name string) headgate.Policy {
	return headgate.Policy{
		Name: name, Limits: p.Limits, Algorithm: p.Algorithm, OnStoreError: p.OnStoreError, Holds: p.Holds.settings(),
		Lease: p.Lease.settings(),
	}
}

// settings returns the settings in the form that package headgate defines.
func (l *Lease) settings() headgate.LeaseSettings {
	if !l.On {
		return headgate.LeaseSettings{}
	}
	return headgate.LeaseSettings{Share: int(l.Share), TTL: l.TTL}
}

// settings returns the settings in the form that the engine defines.
func (b *Ban) settings() engine.Ban {
	if b.After == 0 {
		return engine.Ban{}
	}
	return engine.Ban{After: int64(b.After), Within: b.Within, For: b.For, Max: b.Max, Forget: b.Forget}
}

// settings returns the settings in the form that package headgate defines. The tags of
// h list the values that it parses.
func (h *Holds) settings() (s headgate.HoldSettings) {
	s.OnExpiry, _ = headgate.ParseOnExpiry(h.OnExpiry)
	s.ExcessPolicy, _ = headgate.ParseExcessPolicy(h.Over)
	s.MaxOpen, s.CapAmount = h.MaxOpen, h.CapAmount
	return s
}

// options returns the settings of the policy in the form that the engine defines.
func (p *Policy) options() engine.PolicyOptions {
	options := policyOptions{engine.PolicyOptions{Shadow: engine.All - p.Enforce, Ban: p.Ban.settings(), WarnAt: p.WarnAt}}
	if p.Shadow {
		options.Shadow = engine.All
	}
	for name, limits := range p.Overrides {
		options.add(name, limits)
	}
	return options.PolicyOptions
}

// policyOptions are the options of a policy that are being converted.
type policyOptions struct{ engine.PolicyOptions }

// add adds an override. Its name has passed checkOverride.
func (o *policyOptions) add(name string, limits []headgate.Limit) {
	if text, ok := strings.CutPrefix(name, engine.PatternOverride); ok {
		put(&o.Patterns, text, limits)
	} else if network, ok := networkOf(name); ok {
		put(&o.Networks, network, limits)
	} else {
		put(&o.Overrides, strings.TrimPrefix(name, engine.KeyOverride), limits)
	}
}

// put sets an element of a map, which it makes if it is nil.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

// networkOf returns the network of an override. ok is false for any other override.
func networkOf(name string) (network netip.Prefix, ok bool) {
	text, ok := strings.CutPrefix(name, engine.NetworkOverride)
	if !ok {
		return network, false
	}
	network, err := netip.ParsePrefix(text)
	return network, err == nil
}
