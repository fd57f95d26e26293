package config

import (
	"net/netip"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
)

// overridePrefix is the prefix of the keys of overrides. It may be omitted in the
// configuration file, but is always present in [Policy].
const overridePrefix = "key:"

// Engine returns the options of the engine that the configuration specifies.
func (c *Config) Engine() *engine.Options {
	opts := &engine.Options{
		Policies:      make(map[string]headgate.Policy, len(c.Policies)),
		PolicyOptions: make(map[string]engine.PolicyOptions),
		OnStoreError:  c.OnStoreError,
		Enforcement:   c.Enforcement,
		MaxKeyBytes:   c.MaxKeyBytes,
		MaxChecks:     c.MaxChecks,

		TrustedProxies: c.Proxies(),
	}
	keys := make(map[string]routing.Key, len(c.Policies))
	for name, p := range c.Policies {
		opts.Policies[name], opts.PolicyOptions[name] = p.policy(name), p.options()
		keys[name] = p.Key
	}
	opts.Routes = routing.NewTable(routesOf(c.Routes), keys)
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
		Name: name, Limits: p.Limits, Algorithm: p.Algorithm, OnStoreError: p.OnStoreError,
	}
}

// options returns the settings of the policy in the form that the engine defines.
func (p *Policy) options() engine.PolicyOptions {
	options := engine.PolicyOptions{Shadow: engine.All - p.Enforce}
	if p.Shadow {
		options.Shadow = engine.All
	}
	if len(p.Overrides) > 0 {
		options.Overrides = make(map[string][]headgate.Limit, len(p.Overrides))
	}
	for key, limits := range p.Overrides {
		options.Overrides[strings.TrimPrefix(key, overridePrefix)] = limits
	}
	return options
}
