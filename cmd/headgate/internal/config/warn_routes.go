package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
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
	c.warnOfChosenOverrides()
	c.warnOfPlans()
}

// whyNever returns the reason why no request can have a key to which the override
// applies, or "".
func whyNever(key routing.Key, override string) string {
	if network, ok := networkOf(override); ok {
		return key.NeverInNetwork(network)
	}
	if text, ok := strings.CutPrefix(override, engine.KeyOverride); ok {
		return key.NeverMatches(text)
	}
	return ""
}

// trustedHeaders returns the canonical names of the trusted header fields.
func (c *Config) trustedHeaders() []string {
	names := make([]string, len(c.TrustedHeaders))
	for i, name := range c.TrustedHeaders {
		names[i] = string(name)
	}
	return names
}

// checkTrustedHeaders returns an error for each header field that a route matches and
// that is not trusted: its client could choose the route, and so its limits.
func (c *Config) checkTrustedHeaders() (errs Errors) {
	trusted := c.trustedHeaders()
	for i := range c.Routes {
		for _, name := range slices.Sorted(maps.Keys(c.Routes[i].Match.Header)) {
			canonical, err := routing.ParseHeaderName(name)
			if err != nil || slices.Contains(trusted, canonical) {
				continue
			}
			path := join(join(routePath(i), "match.header"), plain(name))
			at := c.parsed.at[path]
			errs = append(errs, &Error{
				Source: c.parsed.Source, Line: at.line, Column: at.column, Path: path,
				Message: "every client can send " + canonical + ", so it could choose its route; configure your proxy to set or remove the field on " +
					"every request, and then add trusted_headers: [" + canonical + "]",
			})
		}
	}
	return errs
}

// warnOfChosenOverrides adds a warning for each policy of a route with an override that
// allows everything, if a client can choose its key.
func (c *Config) warnOfChosenOverrides() {
	warned, trusted := 0, c.trustedHeaders()
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		policy := c.Policies[name]
		onRoute := slices.ContainsFunc(c.Routes, func(r Route) bool { return slices.Contains(r.Policies, name) })
		if !onRoute || !policy.Key.UsesHeader(trusted) || warned == maxRouteWarnings {
			continue
		}
		for _, override := range slices.Sorted(maps.Keys(policy.Overrides)) {
			if _, isNetwork := networkOf(override); isNetwork || !policy.Overrides[override][0].IsUnlimited() {
				continue
			}
			warned++
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: a client that sends a header field with this key is not limited, because clients choose "+
				"the key %s; configure your proxy to set or remove the field, and add it to trusted_headers",
				join(join(join("policies", plain(name)), "overrides"), plain(override)), policy.Key))
			break
		}
	}
}

// warnOfPlans adds a warning for each route that matches a header field and has no later
// route for requests without it: they would be allowed.
func (c *Config) warnOfPlans() {
	warned, routes := 0, routesOf(c.Routes)
	for i, r := range routes {
		if len(r.Headers) == 0 || warned == maxRouteWarnings {
			continue
		}
		fields := r.Headers
		if r.Headers = nil; routing.IsCovered(routes[i+1:], r) {
			continue
		}
		warned++
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: a request with another value of %s, or without the field, may match no route and is then "+
			"allowed; add a later route with the same match and no header", routePath(i), fields[0].Name))
	}
}

// warnOfHeaderKeys adds a warning for each route on which the client of a request can
// choose its budget for every policy, because each key is a header field.
func (c *Config) warnOfHeaderKeys() {
	warned, trusted := 0, c.trustedHeaders()
	for i, r := range c.Routes {
		chosen := func(name string) bool { key := c.Policies[name].Key; return key.PrefersHeader(trusted) }
		other := slices.ContainsFunc(r.Policies, func(name string) bool { return !chosen(name) })
		if len(r.Policies) == 0 || other || warned == maxRouteWarnings {
			continue
		}
		warned++
		first := r.Policies[0]
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: a client chooses the key of every policy, such as policy %s with the key %s: unless your "+
			"proxy verifies the field, each new value gets a new budget; add a policy with the key ip to the route, or add the field to trusted_headers",
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
			why := whyNever(policy.Key, override)
			if why == "" || warned == maxRouteWarnings {
				continue
			}
			warned++
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s: never matches on a route: %s",
				join(join(join("policies", plain(name)), "overrides"), plain(override)), why))
		}
	}
}
