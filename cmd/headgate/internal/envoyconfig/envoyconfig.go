// Package envoyconfig reads the configuration of envoyproxy/ratelimit, a folder of YAML files, as that service reads it, and finds the
// rule for a request's descriptor by that service's rules. It decides nothing.
//
// # What is read
//
// One domain to a file, a tree of descriptors in each. Everything that envoyproxy/ratelimit takes is taken, errors have its words, and
// one bad file refuses the whole configuration. What is ours, on a rate_limit: algorithm, limits, on_store_error and unit_multiplier.
// Keys that stand where they say nothing, which envoyproxy/ratelimit ignores, and rules that can never match are told as warnings.
//
// # How a rule is found
//
// The entries of a descriptor are walked from the first to the last, one level of the tree for each. On a level the child that says the
// entry's key and value is tried first, then those with a * in the order of the file, then the one that says the key alone. The first
// that is there is taken, and not given up again. A rule counts only on the node of the last entry.
package envoyconfig

import (
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// DefaultMaxEntries is the most entries of a descriptor, unless [ParseOptions] say otherwise: deeper rules are told as warnings.
const DefaultMaxEntries = 16

// Unit is the span of a limit, by the numbers of Envoy's protocol.
type Unit int32

// The units. A limit whose period is none of them, such as 5 minutes, has UnknownUnit.
const (
	UnknownUnit Unit = iota
	Second
	Minute
	Hour
	Day
	Month // 30 days
	Year  // 365 days
	Week
)

const day = 24 * time.Hour

// units are their names and lengths, by their numbers.
var units = [...]struct {
	name   string
	length time.Duration
}{
	{"unknown", 0},
	{"second", time.Second},
	{"minute", time.Minute},
	{"hour", time.Hour},
	{"day", day},
	{"month", 30 * day},
	{"year", 365 * day},
	{"week", 7 * day},
}

// String is the unit's name in lower case.
func (u Unit) String() string {
	if u < 0 || int(u) >= len(units) {
		u = UnknownUnit
	}
	return units[u].name
}

// Length is the unit's span; 0 for a unit that is not known.
func (u Unit) Length() time.Duration {
	if u < 0 || int(u) >= len(units) {
		return 0
	}
	return units[u].length
}

// unitOf is the unit whose span is d.
func unitOf(d time.Duration) Unit {
	for u := range units {
		if d > 0 && units[u].length == d {
			return Unit(u)
		}
	}
	return UnknownUnit
}

// Config is a whole configuration. It does not change and may be used concurrently. It is made with [Load] or [Parse].
type Config struct {
	domains  map[string]*Domain
	rules    []*Rule
	warnings []Warning

	maxEntries int
	named      int // of mostNamed
	compared   int // of mostCompared
}

// Domain finds a domain by its name; nil if there is none.
func (c *Config) Domain(name string) *Domain { return c.domains[name] }

// Domains is how many domains there are.
func (c *Config) Domains() int { return len(c.domains) }

// Rules are all rules, in the order of the files. They must not be changed.
func (c *Config) Rules() []*Rule { return c.rules }

// Warnings are what is allowed and does not do what it seems to.
func (c *Config) Warnings() []Warning { return c.warnings }

// Rule is a rate_limit and what its descriptor says of it. It must not be changed.
type Rule struct {
	// Name goes into answers, and is what replaces speaks of; may be empty.
	Name string
	// Replaces are the names of rules that say nothing in a request that this one matches.
	Replaces []string
	// Unlimited admits everything, and counts nothing.
	Unlimited bool
	// Shadow counts and tells, and denies nobody.
	Shadow bool
	// Quota makes the rule one of several of which only all together deny.
	Quota bool
	// Detailed names counters after what requests say; see [Matcher.AppendStat].
	Detailed bool
	// Metadata is handed out when the rule does not deny; nil if there is none.
	Metadata *structpb.Struct
	// Limits are the limits, all or none; none at all if Unlimited.
	Limits []Limit
	// Path is what statistics call the rule: domain.key_value.key.
	Path string
	// Index is its place in [Config.Rules].
	Index int

	variable bool // some level puts its value into the name of the counters
}

// Limit is one limit of a rule.
type Limit struct {
	// Own is what the engine is asked for; nil if nothing at all is allowed.
	Inline *engine.InlineLimit
	// Requests and Unit are what answers say. More than [headgate.MaxUnits] can be said and not counted; see [MakeLimit].
	Requests uint32
	Unit     Unit
	// Period is the span.
	Period time.Duration
	// Windows says that it counts in fixed windows of whole seconds from the epoch, so that answers tell whole seconds until the next.
	Windows bool
}

// SharesState reports whether what two limits count of one key is the same.
func (l Limit) SharesState(other Limit) bool {
	return l.Inline != nil && other.Inline != nil && l.Inline.Scope == other.Inline.Scope && l.Inline.Algorithm == other.Inline.Algorithm
}

// MakeLimit is a limit of requests in each window of period, as envoyproxy/ratelimit counts. State is told by the period: those of one
// period share it. More than [headgate.MaxUnits] requests are counted to that number only, and denied above. It allocates nothing that
// lasts but the scope, for which period should be that of a [Unit].
func MakeLimit(requests uint32, period time.Duration) (l Limit, own engine.InlineLimit) {
	l = Limit{Requests: requests, Unit: unitOf(period), Period: period, Windows: true}
	if requests == 0 {
		return l, own
	}
	return l, engine.InlineLimit{
		Scope:     scopeOf(period, 0),
		Limit:     headgate.Limit{Rate: min(int64(requests), headgate.MaxUnits), Period: period},
		Algorithm: headgate.FixedWindow,
		Name:      "envoy",
	}
}
