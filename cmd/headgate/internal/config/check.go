package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// check records errors in combinations of values, each of which is valid alone.
func (d *decoder) check(f *File) {
	names := slices.Sorted(maps.Keys(f.Policies))
	for _, name := range names {
		policy, path := f.Policies[name], join("policies", plain(name))
		if _, named := d.at[join(path, "algorithm")]; !named && policy.choosesAlgorithm() {
			policy.Algorithm = "" // each limit then has the algorithm that it requires
			f.Policies[name] = policy
		}
		d.checkPolicy(path, name, &policy)
	}
	for i := range f.Routes {
		d.checkRoute(routePath(i), &f.Routes[i], f.Policies, names)
	}
	d.checkTokens(f)
	if !d.hasErrorBelow("routes") {
		d.checkReachable(f.Routes)
	}
}

// choosesAlgorithm reports whether a limit of the policy has no period. Only an algorithm
// with a calendar, or one for concurrent units, accepts such a limit.
func (p *Policy) choosesAlgorithm() bool {
	return slices.ContainsFunc(p.allLimits(), func(l headgate.Limit) bool {
		return l.Concurrent || l.Period == 0 && l.Calendar != (headgate.Calendar{})
	})
}

// uses reports whether the algorithm of a limit of the policy has a property.
func (p *Policy) uses(property func(headgate.Algorithm) bool) bool {
	return slices.ContainsFunc(p.allLimits(), func(l headgate.Limit) bool { return property(p.Algorithm.For(l)) })
}

// allLimits returns the limits of the policy and of its overrides.
func (p *Policy) allLimits() []headgate.Limit {
	all := slices.Clone(p.Limits)
	for _, limits := range p.Overrides {
		all = append(all, limits...)
	}
	return all
}

func routePath(i int) string { return "routes[" + strconv.Itoa(i) + "]" }

// hasErrorBelow reports whether an error was recorded for the value at path or for a
// value inside it. Later checks skip such a value, because their errors would only be
// consequences.
func (d *decoder) hasErrorBelow(path string) bool {
	return slices.ContainsFunc(d.errs, func(e *Error) bool {
		rest, found := strings.CutPrefix(e.Path, path)
		return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (d *decoder) checkPolicy(path, name string, p *Policy) {
	if d.hasErrorBelow(path) {
		return
	}
	if len(name) > 256 {
		d.fail(d.keys[path], path, false, "the name has %d bytes; must be at most 256", len(name))
	}
	if _, both := d.at[join(path, "enforce")]; both && p.Shadow {
		shadow := join(path, "shadow")
		d.fail(d.at[shadow], shadow, false,
			"shadow: true cannot be combined with enforce, as it enforces nothing; remove one of them")
	}
	d.checkLease(join(path, "lease"), p)
	d.checkHolds(join(path, "holds"), p)
	d.checkBan(join(path, "ban"), p)
	d.checkLimits(join(path, "limits"), p.Algorithm, p.Limits)
	for name, limits := range p.Overrides {
		at := join(join(path, "overrides"), plain(name))
		if err := checkOverride(name); err != nil {
			d.fail(d.keys[at], at, false, "%s", err)
			continue
		}
		d.checkLimits(at, p.Algorithm, limits)
	}
}

// checkLease records an error if the policy is leased and has a limit whose algorithm has
// no leases.
func (d *decoder) checkLease(path string, p *Policy) {
	for _, l := range p.Limits {
		if name := p.Algorithm.For(l); p.Lease.On && !l.IsUnlimited() && !l.IsBlocked() && !name.CanLease() {
			d.fail(d.at[path], path, false, "%s", noLeases(name))
			return
		}
	}
}

// checkBan records an error if the settings for bans contradict each other.
func (d *decoder) checkBan(path string, p *Policy) {
	if err := p.Ban.settings().Validate(); err != nil {
		d.fail(d.at[path], path, false, "%s", strings.TrimPrefix(err.Error(), headgate.ErrInvalidPolicy.Error()+": "))
	}
}

// checkHolds records an error if the policy has settings for holds and a limit whose
// algorithm has no holds.
func (d *decoder) checkHolds(path string, p *Policy) {
	at, given := d.at[path]
	if _, err := algo.Named(p.Algorithm); err != nil || !given {
		return // the decoder has recorded an error for the unknown algorithm
	}
	for _, l := range p.Limits {
		if name := p.Algorithm.For(l); !l.IsUnlimited() && !l.IsBlocked() && !name.CanHold() {
			d.fail(at, path, false, "%s has no holds; remove holds, or use another algorithm such as token_bucket", name)
			return
		}
	}
}

// checkOverride returns an error if the name of an override is not valid.
func checkOverride(name string) error {
	if text, isPattern := strings.CutPrefix(name, engine.PatternOverride); isPattern {
		pattern, err := routing.ParsePattern(text)
		if err == nil && pattern.IsExact() {
			err = fmt.Errorf("the pattern has no *, so it matches a single key; write %s", clip(engine.KeyOverride+text))
		}
		return err
	}
	text, isNetwork := strings.CutPrefix(name, engine.NetworkOverride)
	if !isNetwork {
		return nil
	}
	network, err := parseNetwork(text)
	if err == nil && network.Prefix.String() != text {
		err = fmt.Errorf("%s is not in normal form; write %s", clip(text), clip(engine.NetworkOverride+network.Prefix.String()))
	}
	return err
}

// checkLimits records errors for limits that the algorithm does not support, and for
// duplicate limits.
func (d *decoder) checkLimits(path string, name headgate.Algorithm, limits []headgate.Limit) {
	if _, err := algo.Named(name); err != nil {
		return // the decoder has recorded an error for the unknown algorithm
	}
	for i, l := range limits {
		a, _ := algo.Named(name.For(l))
		at := path + "[" + strconv.Itoa(i) + "]"
		if l.IsUnlimited() || l.IsBlocked() {
			if len(limits) > 1 {
				d.fail(d.at[at], at, false, "%s must be the only limit, because it needs no other; remove the other limits or this one",
					clip(d.limits[at]))
			}
			continue
		}
		if err := a.Check(l); err != nil {
			d.fail(d.at[at], at, false, "%s", limitMessage(d.limits[at], err))
			continue
		}
		if first := slices.Index(limits[:i], l); first >= 0 {
			d.fail(d.at[at], at, false, "duplicate limit %s; the first is limits[%d]", clip(d.limits[at]), first)
		}
	}
}

// limitMessage returns an error message for an error that an algorithm or a store
// returned for the limit that is written as text.
func limitMessage(text string, err error) string {
	if e := (*headgate.LimitError)(nil); errors.As(err, &e) {
		return limitError(text, e)
	}
	return err.Error()
}

// checkRoute records errors for the policies of a route. Policies that limit concurrent
// work need a hold, because a route decides before the work and never learns of its end.
// Policies with a queue have no holds.
func (d *decoder) checkRoute(path string, r *Route, policies map[string]Policy, names []string) {
	for i, name := range r.Policies {
		at := join(path, "policies") + "[" + strconv.Itoa(i) + "]"
		if _, read := d.at[at]; !read || d.hasErrorBelow(at) {
			continue
		}
		policy := policies[name]
		switch first := slices.Index(r.Policies[:i], name); {
		case first >= 0:
			d.fail(d.at[at], at, false, "duplicate policy %s; the first is policies[%d]", clip(name), first)
		case !slices.Contains(names, name):
			d.fail(d.at[at], at, false, "%s", unknownPolicy(name, names))
		case r.Hold == 0 && policy.uses(headgate.Algorithm.OnlyHolds):
			d.fail(d.at[at], at, false, "policy %s limits concurrent work, which a route cannot end; add hold: 1m to the route and"+
				" commit each hold with /v1/commit, or remove it here", clip(name))
		case r.Hold > 0 && policy.uses(headgate.Algorithm.Queues):
			d.fail(d.at[at], at, false, "policy %s has a queue, and a queue has no holds; remove it here, or hold from the route", clip(name))
		}
	}
	d.checkHeaders(join(path, "match.header"), r.Match.Header)
	var methods routing.Methods
	for i, m := range r.Match.Method {
		at := join(path, "match.method") + "[" + strconv.Itoa(i) + "]"
		if err := methods.Add(string(m)); err != nil && !d.hasErrorBelow(at) {
			d.fail(d.at[at], at, false, "duplicate method %s", m)
		}
	}
}

// checkHeaders records errors for invalid and duplicate names of header fields.
func (d *decoder) checkHeaders(path string, fields map[string]routing.Pattern) {
	first := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := join(path, plain(name))
		canonical, err := routing.ParseHeaderName(name)
		switch other := first[canonical]; {
		case d.hasErrorBelow(at):
		case err != nil:
			d.fail(d.keys[at], at, false, "%s", headerProblem(err))
		case other != "":
			d.fail(d.keys[at], at, false, "%s and %s are the same header field; remove one", clip(other), clip(name))
		}
		first[canonical] = name
	}
}

// headerProblem returns the message for the error of [routing.ParseHeaderName].
func headerProblem(err error) string {
	if e := (*routing.SyntaxError)(nil); errors.As(err, &e) {
		return strings.TrimSpace(clip(e.Input) + " " + e.Reason)
	}
	return err.Error()
}

func unknownPolicy(name string, names []string) string {
	message := "unknown policy " + clip(name)
	if len(names) == 0 {
		return message + "; the file defines no policies; add it to policies"
	}
	if nearest := suggest.Nearest(name, names); nearest != "" {
		return message + "; did you mean " + clip(nearest) + "?"
	}
	return message + "; must be one of " + shorten(strings.Join(names, ", "))
}

// checkReachable records errors for routes that can never match.
func (d *decoder) checkReachable(from []Route) {
	routes := routesOf(from)
	for _, s := range routing.UnreachableRoutes(routes) {
		var by []string
		for _, i := range s.By {
			at := d.at[routePath(i)]
			by = append(by, fmt.Sprintf("%s (%d:%d: %s)", routePath(i), at.line, at.column, routes[i]))
		}
		verb := "matches"
		if len(by) > 1 {
			verb = "together match"
		}
		path := routePath(s.Route)
		d.fail(d.at[path], path, false,
			"route never matches: the earlier %s %s all of its requests (%s); move the narrower route up",
			strings.Join(by, " and "), verb, routes[s.Route])
	}
}

// routesOf converts the routes of a configuration file for package routing.
func routesOf(from []Route) []routing.Route {
	routes := make([]routing.Route, len(from))
	for i, r := range from {
		routes[i] = routing.Route{Host: r.Match.Host, Path: r.Match.Path, Headers: r.headers(), Policies: r.Policies, Hold: r.Hold}
		for _, m := range r.Match.Method {
			_ = routes[i].Methods.Add(string(m)) // checkRoute has rejected duplicates
		}
	}
	return routes
}

// headers returns the fields of match.header, sorted by name.
func (r *Route) headers() []routing.HeaderMatch {
	var all []routing.HeaderMatch
	for _, name := range slices.Sorted(maps.Keys(r.Match.Header)) {
		if canonical, err := routing.ParseHeaderName(name); err == nil { // checkHeaders has reported the error
			all = append(all, routing.HeaderMatch{Name: canonical, Value: r.Match.Header[name]})
		}
	}
	return all
}
