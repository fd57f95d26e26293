package routing

import (
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"strings"
)

// Route maps requests to policies. A zero Host, Methods or Path matches every request.
type Route struct {
	Host     Host
	Methods  Methods
	Path     Path
	Policies []string // empty: the request is allowed
}

// PolicyKey is a policy that applies to a request, and the request's key.
type PolicyKey struct {
	Policy string
	Key    string
}

// Table finds the policies of requests. It is created with [NewTable], does not change,
// and may be used concurrently.
type Table struct {
	routes []Route
	keys   map[string]Key
}

// NewTable returns a table of routes, in their order, and of the key expressions of
// policies by name. A policy without one has the zero Key. The arguments must not be
// changed afterwards.
func NewTable(routes []Route, keys map[string]Key) *Table { return &Table{routes, keys} }

// None is the index that [Table.Match] returns if no route matches.
const None = -1

// Match returns the index of the first route that matches each reading of the request's
// path, [None] if no route matches; see the package.
func (t *Table) Match(r *Request) (strict, lenient int) {
	host, method := canonicalHost(r.Host), canonicalMethod(r.Method)
	a, b := canonicalPaths(r.Path)
	strict = t.first(host, method, a)
	if a == b {
		return strict, strict
	}
	return strict, t.first(host, method, b)
}

func (t *Table) first(host, method, path string) int {
	bit := bitOf(method)
	for i := range t.routes {
		route := &t.routes[i]
		if route.Methods.contains(method, bit) && route.Host.matches(host) && route.Path.matches(path) {
			return i
		}
	}
	return None
}

// AppendPolicyKeys appends the policies that apply to a request, each once; nothing if no
// route matches. It allocates the text of each key.
func (t *Table) AppendPolicyKeys(dst []PolicyKey, r *Request) []PolicyKey {
	strict, lenient := t.Match(r)
	start := len(dst)
	if strict != None {
		for _, name := range t.routes[strict].Policies {
			dst = append(dst, PolicyKey{name, t.KeyOf(name).Of(r)})
		}
	}
	if lenient == strict || lenient == None {
		return dst
	}
	for _, name := range t.routes[lenient].Policies {
		if !slices.ContainsFunc(dst[start:], func(c PolicyKey) bool { return c.Policy == name }) {
			dst = append(dst, PolicyKey{name, t.KeyOf(name).Of(r)})
		}
	}
	return dst
}

// KeyOf returns the key expression of a policy; the zero Key if the policy has none.
func (t *Table) KeyOf(policy string) Key { return t.keys[policy] }

// Route returns the route at an index that [Table.Match] returned.
func (t *Table) Route(i int) Route { return t.routes[i] }

// Methods is a set of methods. The zero value is all of them.
type Methods struct {
	common uint16   // bits of commonMethods
	others []string // in upper case
}

var commonMethods = [...]string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodHead, http.MethodDelete, http.MethodPatch, http.MethodOptions,
	http.MethodConnect, http.MethodTrace,
}

// Add adds a method, in any case. It returns an error for an invalid or a duplicate
// method.
func (m *Methods) Add(name string) error {
	upper := strings.ToUpper(name)
	if name == "" || len(name) > 32 || strings.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return &SyntaxError{"method", name, 0, len(name), "is not a method; write GET, POST, …"}
	}
	if !m.all() && m.has(upper) {
		return &SyntaxError{"method", name, 0, len(name), "is listed twice"}
	}
	if bit := bitOf(upper); bit != 0 {
		m.common |= bit
		return nil
	}
	m.others = append(m.others, upper)
	return nil
}

// String returns the set in its normal form; “*” for all methods.
func (m Methods) String() string {
	if m.all() {
		return "*"
	}
	return strings.Join(m.names(), ", ")
}

func (m Methods) all() bool { return m.common == 0 && len(m.others) == 0 }

func (m Methods) names() []string {
	var names []string
	for rest := m.common; rest != 0; rest &= rest - 1 {
		names = append(names, commonMethods[bits.TrailingZeros16(rest)])
	}
	return append(names, m.others...)
}

func (m *Methods) has(name string) bool { return m.contains(name, bitOf(name)) }

// contains is has for a method whose bit is known.
func (m *Methods) contains(name string, bit uint16) bool {
	return m.common&bit != 0 || m.all() || bit == 0 && slices.Contains(m.others, name)
}

// bitOf returns the bit of a common method; 0 for others.
func bitOf(name string) uint16 {
	for i, common := range commonMethods {
		if name == common {
			return 1 << i
		}
	}
	return 0
}

// UnreachableRoute is a route that never matches because earlier routes match all of its
// requests.
type UnreachableRoute struct {
	Route int   // the index of the route
	By    []int // the indexes of the routes that cover it
}

// UnreachableRoutes finds routes that can never match: for each of their methods, an
// earlier route covers all of their hosts and paths. It may miss some, and never reports
// one wrongly.
func UnreachableRoutes(routes []Route) []UnreachableRoute {
	var found []UnreachableRoute
	for i := range routes {
		if by := coveringRoutes(routes[:i], &routes[i]); by != nil {
			found = append(found, UnreachableRoute{i, by})
		}
	}
	return found
}

func coveringRoutes(before []Route, r *Route) (by []int) {
	names := r.Methods.names()
	if len(names) == 0 {
		names = []string{""} // only a route for all methods covers it
	}
	for _, name := range names {
		i := slices.IndexFunc(before, func(b Route) bool {
			return (b.Methods.all() || name != "" && b.Methods.has(name)) && b.Path.covers(r.Path) && b.Host.covers(r.Host)
		})
		if i < 0 {
			return nil
		}
		if !slices.Contains(by, i) {
			by = append(by, i)
		}
	}
	return by
}

// String returns what the route matches.
func (r Route) String() string {
	return fmt.Sprintf("host %s, method %s, path %s", r.Host, r.Methods, r.Path)
}
