package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
)

// maxRouteWarnings is the maximum number of warnings of one kind about routes, and about
// overrides.
const maxRouteWarnings = 10

// warnOfRoutes adds warnings about routes and policies that never apply to a request.
func (c *Config) warnOfRoutes() {
	http := c.HTTP.Addr != Off
	if len(c.Routes) > 0 && !http {
		c.Warnings = append(c.Warnings, "routes: http.addr is off, so no request is checked against a route; proxies use the "+
			"routes through /v1/forward-auth of the HTTP API")
	}
	if len(c.Routes) > 0 && http && !localaccess.Address(string(c.HTTP.Addr)) && len(c.TrustedProxies) == 0 {
		c.Warnings = append(c.Warnings, "routes: trusted_proxies is empty and http.addr "+string(c.HTTP.Addr)+" is not a loopback address, so "+
			"/v1/forward-auth responds with 403 to every proxy; set trusted_proxies to the networks of your proxies")
	}
	if len(c.Policies) > 0 && !http && c.RESP.Addr == Endpoint(Off) {
		c.Warnings = append(c.Warnings, "policies: http.addr and resp.addr are off, so no client can use a policy; remove the policies or enable a listener")
	}
	c.warnOfHeaderKeys()
	c.warnOfOverrides()
}

// warnOfHeaderKeys adds a warning for each route on which the client of a request can
// choose its budget for every policy, because each key is a header field.
func (c *Config) warnOfHeaderKeys() {
	warned := 0
	for i, r := range c.Routes {
		chosen := func(name string) bool { key := c.Policies[name].Key; return key.PrefersHeader() }
		other := slices.ContainsFunc(r.Policies, func(name string) bool { return !chosen(name) })
		if len(r.Policies) == 0 || other || warned == maxRouteWarnings {
			continue
		}
		warned++
		first := r.Policies[0]
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: a client chooses the key of every policy, such as policy %s with the key %s: unless your "+
			"proxy verifies the field, each new value gets a new budget; add a policy with the key ip to the route",
			routePath(i), clip(first), c.Policies[first].Key))
	}
}

// warnOfOverrides adds a warning for each override in a policy of a route whose key no
// request can have. Policies without a route are not checked: clients choose the keys.
func (c *Config) warnOfOverrides() {
	warned := 0
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		if !slices.ContainsFunc(c.Routes, func(r Route) bool { return slices.Contains(r.Policies, name) }) {
			continue
		}
		policy := c.Policies[name]
		for _, override := range slices.Sorted(maps.Keys(policy.Overrides)) {
			why := policy.Key.NeverMatches(override[len(overridePrefix):])
			if why == "" || warned == maxRouteWarnings {
				continue
			}
			warned++
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: never matches on a route: %s",
				join(join(join("policies", plain(name)), "overrides"), plain(override)), why))
		}
	}
}
