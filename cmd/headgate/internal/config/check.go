package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// Parsed is one file as it was read.
type Parsed struct {
	File   File             // what it says; settings that it does not name are zero
	Source string           // what errors call it
	at     map[string]place // where what it names stands, by path
}

// Parse reads a file's text and checks all of it. Source is what errors call it, its name mostly; folders in it are relative to where
// that is. The error is [Errors].
func Parse(source string, text []byte) (*Parsed, error) {
	d := &decoder{source: source, at: make(map[string]place), keys: make(map[string]place)}
	root, wrong := document(source, text)
	if wrong != nil {
		return nil, Errors{wrong}
	}
	var f File
	if root != nil {
		d.value(root, reflect.ValueOf(&f).Elem(), "", "", 0)
		d.check(&f)
	}
	if err := d.errs.orNil(); err != nil {
		return nil, err
	}
	for _, s := range settings {
		if s.typ == reflect.TypeFor[Path]() || s.typ == reflect.TypeFor[Folder]() {
			path := reflect.ValueOf(&f).Elem().FieldByIndex(s.index)
			path.SetString(beside(source, path.String()))
		}
	}
	return &Parsed{f, source, d.at}, nil
}

// beside is a path that a file names, from where the file is.
func beside(source, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(source), path)
}

// sets reports whether the file names a setting.
func (p *Parsed) sets(path string) bool {
	_, ok := p.at[path]
	return ok
}

// check says what is wrong with values that are each fine.
func (d *decoder) check(f *File) {
	for _, name := range slices.Sorted(maps.Keys(f.Policies)) {
		policy := f.Policies[name]
		d.checkPolicy(join("policies", plain(name)), name, &policy)
	}
	names := slices.Sorted(maps.Keys(f.Policies))
	for i := range f.Routes {
		d.checkRoute("routes["+strconv.Itoa(i)+"]", &f.Routes[i], names)
	}
	if !d.below("routes") {
		d.checkShadows(f.Routes)
	}
}

// below reports whether something is wrong at a path or below it: what follows from that need not be said, too.
func (d *decoder) below(path string) bool {
	return slices.ContainsFunc(d.errs, func(e *Error) bool {
		rest, found := strings.CutPrefix(e.Path, path)
		return found && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (d *decoder) checkPolicy(path, name string, p *Policy) {
	if d.below(path) {
		return
	}
	if len(name) > 256 {
		d.fail(d.keys[path], path, false, "its name has %d bytes; accepted are at most 256", len(name))
	}
	if _, both := d.at[join(path, "enforce")]; both && p.Shadow {
		d.fail(d.at[join(path, "shadow")], join(path, "shadow"), false, "shadow enforces nothing, so enforce has no meaning beside it; leave one of them out")
	}
	d.checkLimits(join(path, "limits"), p.Algorithm, p.Limits)
	for key, limits := range p.Overrides {
		d.checkLimits(join(join(path, "overrides"), plain(key)), p.Algorithm, limits)
	}
}

// checkLimits refuses what an algorithm has no use for, and limits that say nothing more.
func (d *decoder) checkLimits(path string, name headgate.Algorithm, limits []headgate.Limit) {
	a, err := algo.Named(name)
	if err != nil {
		return // said already
	}
	for i, l := range limits {
		at := path + "[" + strconv.Itoa(i) + "]"
		if err := a.Check(l); err != nil {
			d.fail(d.at[at], at, false, "%s", refusalOf(l, err))
			continue
		}
		if first := slices.Index(limits[:i], l); first >= 0 {
			d.fail(d.at[at], at, false, "%s stands here twice; the first is limits[%d]", l, first)
		}
	}
}

// refusalOf is what an algorithm or a store has against a limit.
func refusalOf(l headgate.Limit, err error) string {
	if e := (*headgate.LimitError)(nil); errors.As(err, &e) {
		return outsideOf(l.String(), e)
	}
	return err.Error()
}

func (d *decoder) checkRoute(path string, r *Route, names []string) {
	for i, name := range r.Policies {
		at := join(path, "policies") + "[" + strconv.Itoa(i) + "]"
		if _, read := d.at[at]; !read || d.below(at) {
			continue
		}
		switch first := slices.Index(r.Policies[:i], name); {
		case first >= 0:
			d.fail(d.at[at], at, false, "%s stands here twice; the first is policies[%d]", clip(name), first)
		case !slices.Contains(names, name):
			d.fail(d.at[at], at, false, "%s", unknownPolicy(name, names))
		}
	}
	var methods routing.Methods
	for i, m := range r.Match.Method {
		at := join(path, "match.method") + "[" + strconv.Itoa(i) + "]"
		if err := methods.Add(string(m)); err != nil && !d.below(at) {
			d.fail(d.at[at], at, false, "%s stands here twice", m)
		}
	}
}

func unknownPolicy(name string, names []string) string {
	if len(names) == 0 {
		return "there is no policy " + clip(name) + "; policies says which there are, and it names none"
	}
	if meant := suggest.Nearest(name, names); meant != "" {
		return "there is no policy " + clip(name) + "; did you mean " + clip(meant) + "?"
	}
	return "there is no policy " + clip(name) + "; there are " + clipped(strings.Join(names, ", "))
}

// checkShadows refuses routes that can never match.
func (d *decoder) checkShadows(from []Route) {
	routes := routesOf(from)
	for _, s := range routing.Shadows(routes) {
		path := "routes[" + strconv.Itoa(s.Route) + "]"
		var by []string
		for _, i := range s.By {
			by = append(by, fmt.Sprintf("routes[%d] (%d:%d: %s)", i, d.at["routes["+strconv.Itoa(i)+"]"].line,
				d.at["routes["+strconv.Itoa(i)+"]"].column, routes[i]))
		}
		what := "matches"
		if len(by) > 1 {
			what = "together match"
		}
		d.fail(d.at[path], path, false, "it can never match: %s before it %s all of %s; put the narrower one first",
			strings.Join(by, " and "), what, routes[s.Route])
	}
}

// routesOf are the routes of a file as package routing knows them.
func routesOf(from []Route) []routing.Route {
	routes := make([]routing.Route, len(from))
	for i, r := range from {
		routes[i] = routing.Route{Host: r.Match.Host, Path: r.Match.Path, Policies: r.Policies}
		for _, m := range r.Match.Method {
			_ = routes[i].Methods.Add(string(m)) // one that is there twice was refused
		}
	}
	return routes
}

// Engine is what the configuration has for an engine.
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
		opts.Policies[name], opts.PolicyOptions[name] = p.library(name), p.terms()
		keys[name] = p.Key
	}
	opts.Routes = routing.NewTable(routesOf(c.Routes), keys)
	return opts
}

// Proxies are the networks of trusted proxies.
func (c *Config) Proxies() []netip.Prefix {
	networks := make([]netip.Prefix, len(c.TrustedProxies))
	for i, n := range c.TrustedProxies {
		networks[i] = n.Prefix
	}
	return networks
}

// library is the policy as the library has it.
func (p *Policy) library(name string) headgate.Policy {
	return headgate.Policy{Name: name, Limits: p.Limits, Algorithm: p.Algorithm, OnStoreError: p.OnStoreError}
}

// terms are what is special about the policy.
func (p *Policy) terms() engine.PolicyOptions {
	t := engine.PolicyOptions{Shadow: engine.All - p.Enforce}
	if p.Shadow {
		t.Shadow = engine.All
	}
	if len(p.Overrides) > 0 {
		t.Overrides = make(map[string][]headgate.Limit, len(p.Overrides))
	}
	for key, limits := range p.Overrides {
		t.Overrides[strings.TrimPrefix(key, "key:")] = limits
	}
	return t
}
