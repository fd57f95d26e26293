package routing

import (
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"strings"
)

// Route is which requests are under which policies. A zero part of the match is all.
type Route struct {
	Host     Host
	Methods  Methods
	Path     Path
	Policies []string // none: the request is let pass
}

// Charge is a policy that a request is under, and whose budget of it is spent.
type PolicyKey struct {
	Policy string
	Key    string
}

// Table finds the policies of requests. It is made with [NewTable], does not change, and may be used concurrently.
type Table struct {
	routes []Route
	keys   map[string]Key
}

// NewTable makes a table of routes, in their order, and of the keys of policies by name; a policy that is not among them has the zero
// key. The arguments must not be changed afterwards.
func NewTable(routes []Route, keys map[string]Key) *Table { return &Table{routes, keys} }

// None stands for no route.
const None = -1

// Match is the index of the first route that matches each reading of the request's path, [None] if there is none; see the package.
func (t *Table) Match(r *Request) (plain, lenient int) {
	host, method := canonicalHost(r.Host), canonicalMethod(r.Method)
	a, b := readings(r.Path)
	plain = t.first(host, method, a)
	if a == b {
		return plain, plain
	}
	return plain, t.first(host, method, b)
}

func (t *Table) first(host, method, path string) int {
	bit := bitOf(method)
	for i := range t.routes {
		route := &t.routes[i]
		if route.Methods.holds(method, bit) && route.Host.matches(host) && route.Path.matches(path) {
			return i
		}
	}
	return None
}

// AppendCharges appends what the request is to be charged, each policy once: nothing if no route matches. The texts of keys are
// allocated, one for each charge.
func (t *Table) AppendPolicyKeys(dst []PolicyKey, r *Request) []PolicyKey {
	plain, lenient := t.Match(r)
	start := len(dst)
	if plain != None {
		for _, name := range t.routes[plain].Policies {
			dst = append(dst, PolicyKey{name, t.KeyOf(name).Of(r)})
		}
	}
	if lenient == plain || lenient == None {
		return dst
	}
	for _, name := range t.routes[lenient].Policies {
		if !slices.ContainsFunc(dst[start:], func(c PolicyKey) bool { return c.Policy == name }) {
			dst = append(dst, PolicyKey{name, t.KeyOf(name).Of(r)})
		}
	}
	return dst
}

// KeyOf is the key of a policy; the zero Key if the table does not know it.
func (t *Table) KeyOf(policy string) Key { return t.keys[policy] }

// Route is the route of an index that [Table.Match] gave.
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

// Add adds a method, in any case. It refuses what cannot be one, and one that is there already.
func (m *Methods) Add(name string) error {
	upper := strings.ToUpper(name)
	if name == "" || len(name) > 32 || strings.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return &SyntaxError{"method", name, 0, len(name), "is no method; write GET, POST, …"}
	}
	if !m.all() && m.has(upper) {
		return &SyntaxError{"method", name, 0, len(name), "stands here twice"}
	}
	if bit := bitOf(upper); bit != 0 {
		m.common |= bit
		return nil
	}
	m.others = append(m.others, upper)
	return nil
}

// String is the set as it would be written; “*” for all.
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

func (m *Methods) has(name string) bool { return m.holds(name, bitOf(name)) }

// holds is has, for a method whose bit is known.
func (m *Methods) holds(name string, bit uint16) bool {
	return m.common&bit != 0 || m.all() || bit == 0 && slices.Contains(m.others, name)
}

// bitOf is the bit of a common method; 0 for others.
func bitOf(name string) uint16 {
	for i, common := range commonMethods {
		if name == common {
			return 1 << i
		}
	}
	return 0
}

// Shadow says that a route never matches because of those before it.
type Shadow struct {
	Route int   // the route that is never reached
	By    []int // the routes that match all of it
}

// Shadows finds routes that can never match: each of their methods is covered, on all of their hosts and paths, by a route before
// them. It may miss some, and never claims one wrongly.
func Shadows(routes []Route) []Shadow {
	var found []Shadow
	for i := range routes {
		if by := shadowedBy(routes[:i], &routes[i]); by != nil {
			found = append(found, Shadow{i, by})
		}
	}
	return found
}

func shadowedBy(before []Route, r *Route) (by []int) {
	names := r.Methods.names()
	if len(names) == 0 {
		names = []string{""} // only a route for all methods covers all methods
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

// String is what the route matches, for people.
func (r Route) String() string {
	return fmt.Sprintf("host %s, method %s, path %s", r.Host, r.Methods, r.Path)
}
