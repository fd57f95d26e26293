package routing

import (
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/key"
	"github.com/headgate/headgate/internal/urlpath"
)

// Route assigns policies to the requests that match it. A Host, Methods, Path or Headers
// with the zero value matches every request.
type Route struct {
	Host     Host
	Methods  Methods
	Path     Path
	Headers  []HeaderMatch // all of them must match
	Policies []string      // names of policies; empty means that the request is allowed
	Hold     time.Duration // TTL of the hold of each request; 0 means that no hold is opened
}

// PolicyKey is the name of a policy that applies to a request, and the request's key
// for this policy.
type PolicyKey struct {
	Policy string
	Key    string
}

// Table finds the policies for requests. It is created with [NewTable], does not
// change, and may be used concurrently.
type Table struct {
	routes  []Route
	keys    map[string]Key
	matched []singleField            // header fields that routes match
	keyed   map[string][]singleField // header fields in the key of a policy, by policy
	holds   bool                     // whether any route has a Hold
	most    int                      // see MaxPolicies
}

// MaxKeyBytes is the maximum length of a key that [Table.AppendPolicyKeys] returns, in
// bytes.
const MaxKeyBytes = key.MaxBytes

// NewTable returns a table with the given routes, in order of priority, and the
// policies' key expressions by policy name. A policy without an expression has the zero
// Key. trusted are the canonical names of the header fields that the proxies set or
// remove. The arguments must not be changed after the call.
func NewTable(routes []Route, keys map[string]Key, trusted ...string) *Table {
	holds := slices.ContainsFunc(routes, func(r Route) bool { return r.Hold > 0 })
	return &Table{routes, keys, matchedFields(routes, trusted), keyFields(keys, trusted), holds, mostPolicies(routes)}
}

// mostPolicies returns the maximum number of policies that apply to one request: those of
// one route for each reading of its path, without duplicates.
func mostPolicies(routes []Route) int {
	different, most := make(map[string]bool), 0
	for i := range routes {
		most = max(most, len(routes[i].Policies))
		for _, name := range routes[i].Policies {
			different[name] = true
		}
	}
	return min(len(different), most*urlpath.MaxReadings)
}

// MaxPolicies returns the maximum number of policies that [Table.AppendPolicyKeys]
// returns for any request.
func (t *Table) MaxPolicies() int { return t.most }

// none is the index that [Table.first] returns if no route matches.
const none = -1

// AppendRoutes appends the index of the first route that matches each reading of the
// request's path, without duplicates: first for the strict reading, then for the lenient
// one, then for the others. The package documentation explains the readings. It appends
// nothing if no route matches.
func (t *Table) AppendRoutes(dst []int, r *Request) []int {
	host, method := canonicalHost(r.Host), canonicalMethod(r.Method)
	var array [2]string
	start := len(dst)
	for _, path := range urlpath.AppendReadings(array[:0], r.Path) {
		if i := t.first(host, method, path, r.Header); i != none && !slices.Contains(dst[start:], i) {
			dst = append(dst, i)
		}
	}
	return dst
}

func (t *Table) first(host, method, path string, header http.Header) int {
	bits := matchBits(method)
	for i := range t.routes {
		route := &t.routes[i]
		if route.Methods.contains(method, bits) && route.Host.matches(host) && route.Path.matches(path) &&
			route.matchesHeader(header) {
			return i
		}
	}
	return none
}

// Select appends the policies that apply to a request, like [Table.AppendPolicyKeys]. A
// policy that is not empty applies instead of the routes. Select returns a [*HeaderError]
// if the request may have several values of a header field that selects a route or is in
// the key of a policy that applies.
func (t *Table) Select(dst []PolicyKey, policy string, r *Request) ([]PolicyKey, error) {
	start := len(dst)
	if policy != "" {
		dst = append(dst, PolicyKey{policy, t.KeyOf(policy).Of(r)})
	} else {
		if err := checkAll(t.matched, r.Header); err != nil {
			return dst, err
		}
		dst = t.AppendPolicyKeys(dst, r)
	}
	for _, selected := range dst[start:] {
		if err := checkAll(t.keyed[selected.Policy], r.Header); err != nil {
			return dst[:start], err
		}
	}
	return dst, nil
}

// AppendPolicyKeys appends the policies that apply to a request, without duplicates,
// and the request's key for each. It appends nothing if no route matches. It allocates
// the text of each key.
func (t *Table) AppendPolicyKeys(dst []PolicyKey, r *Request) []PolicyKey {
	var array [2]int
	start := len(dst)
	for _, route := range t.AppendRoutes(array[:0], r) {
		for _, name := range t.routes[route].Policies {
			if !slices.ContainsFunc(dst[start:], func(c PolicyKey) bool { return c.Policy == name }) {
				dst = append(dst, PolicyKey{name, t.KeyOf(name).Of(r)})
			}
		}
	}
	return dst
}

// HoldTTL returns the TTL of the hold for a request: the longest of its routes, or 0 if
// none of them has a Hold.
func (t *Table) HoldTTL(r *Request) (ttl time.Duration) {
	if !t.holds {
		return 0
	}
	var array [2]int
	for _, route := range t.AppendRoutes(array[:0], r) {
		ttl = max(ttl, t.routes[route].Hold)
	}
	return ttl
}

// KeyOf returns the key expression of a policy, or the zero Key if the policy has none.
func (t *Table) KeyOf(policy string) Key { return t.keys[policy] }

// Route returns the route with the index i, as returned by [Table.AppendRoutes].
func (t *Table) Route(i int) Route { return t.routes[i] }

// Methods is a set of HTTP methods. The zero value is the set of all methods. A set with
// GET also matches HEAD.
type Methods struct {
	common uint16   // set of indexes in commonMethods
	others []string // other methods, in upper case
}

var commonMethods = [...]string{
	http.MethodGet, http.MethodPost, http.MethodPut, http.MethodHead, http.MethodDelete, http.MethodPatch, http.MethodOptions,
	http.MethodConnect, http.MethodTrace,
}

// getBit and headBit are the bits of two methods in Methods.common.
var getBit, headBit = bitOf(http.MethodGet), bitOf(http.MethodHead)

// Add adds a method, written in any case, to the set. It returns an error if the method
// is invalid or already in the set.
func (m *Methods) Add(name string) error {
	upper := strings.ToUpper(name)
	if name == "" {
		return &SyntaxError{"method", name, 0, 0, "is empty; write GET, POST, …"}
	}
	if len(name) > 32 || strings.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return &SyntaxError{"method", name, 0, len(name), "is not a method; write GET, POST, …"}
	}
	if bit := bitOf(upper); m.common&bit != 0 || slices.Contains(m.others, upper) {
		return &SyntaxError{"method", name, 0, len(name), "is listed twice"}
	}
	if bit := bitOf(upper); bit != 0 {
		m.common |= bit
		return nil
	}
	m.others = append(m.others, upper)
	return nil
}

// String returns the set in normal form, which is “*” for all methods.
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

func (m *Methods) has(name string) bool { return m.contains(name, matchBits(name)) }

// contains reports whether the set matches the method name. bits must be matchBits(name).
func (m *Methods) contains(name string, bits uint16) bool {
	return m.common&bits != 0 || m.all() || bits == 0 && slices.Contains(m.others, name)
}

// matchBits returns the bits of the methods in Methods.common that match a request with
// the method name.
func matchBits(name string) uint16 {
	bits := bitOf(name)
	if bits == headBit {
		bits |= getBit
	}
	return bits
}

// bitOf returns the bit of a method in Methods.common, or 0 for a method
// that is not in commonMethods.
func bitOf(name string) uint16 {
	for i, common := range commonMethods {
		if name == common {
			return 1 << i
		}
	}
	return 0
}

// UnreachableRoute is a route that never matches, because earlier routes match all of
// its requests.
type UnreachableRoute struct {
	Route int   // index of the route
	By    []int // indexes of the earlier routes that together match its requests
}

// UnreachableRoutes returns routes that can never match: for each of the route's
// methods, there is an earlier route that matches all of its hosts and paths. All
// returned routes are unreachable, but the result may be incomplete.
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
		names = []string{""} // only an earlier route for all methods can cover this route
	}
	for _, name := range names {
		i := slices.IndexFunc(before, func(b Route) bool {
			return (b.Methods.all() || name != "" && b.Methods.has(name)) && b.Path.covers(r.Path) && b.Host.covers(r.Host) &&
				b.coversHeaders(r)
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

// String returns a description of the requests that the route matches.
func (r Route) String() string {
	text := fmt.Sprintf("host %s, method %s, path %s", r.Host, r.Methods, r.Path)
	for _, m := range r.Headers {
		text += fmt.Sprintf(", header %s: %s", m.Name, m.Value)
	}
	return text
}
