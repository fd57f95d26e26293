// Package envoyconfig reads the configuration of envoyproxy/ratelimit, a folder of
// YAML files, and matches descriptors of requests to its rules. Reading and matching
// follow envoyproxy/ratelimit. The package makes no rate limit decisions.
//
// # Format
//
// Each file has one domain with a tree of descriptors. Every file that
// envoyproxy/ratelimit accepts is accepted, with the same error messages. One invalid
// file invalidates the whole configuration. A rate_limit has these additional keys:
// algorithm, limits, on_store_error, lease and unit_multiplier. Misplaced keys, which
// envoyproxy/ratelimit ignores, and rules that never match produce warnings.
//
// # Matching
//
// The entries of a descriptor are matched in order, each on one level of the tree. On
// each level, the child with the entry's key and value is tried first, then children
// with "*" in file order, then the child with the key alone. Matching does not
// backtrack: the first match is final. A rule applies only if it is on the node of
// the last entry.
package envoyconfig

import (
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/calendar"
)

// Unit is the unit of a limit's period. Its values are equal to those of the enum in
// Envoy's protocol.
type Unit int32

// The units. A limit whose period is not one of them, such as 5 minutes, has
// UnknownUnit.
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

// units has the name and the length of each unit.
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

// String returns the unit's name in lower case.
func (u Unit) String() string {
	if u < 0 || int(u) >= len(units) {
		u = UnknownUnit
	}
	return units[u].name
}

// Length returns the unit's length; 0 for an unknown unit.
func (u Unit) Length() time.Duration {
	if u < 0 || int(u) >= len(units) {
		return 0
	}
	return units[u].length
}

// unitOf returns the unit whose length is d, or UnknownUnit.
func unitOf(d time.Duration) Unit {
	for u := range units {
		if d > 0 && units[u].length == d {
			return Unit(u)
		}
	}
	return UnknownUnit
}

// Config is a configuration. It is immutable and may be used concurrently. It is
// created with [Load], [Parse] or [ParseResources].
type Config struct {
	domains  map[string]*Domain
	rules    []*Rule
	warnings []Warning

	calendarMonths bool // see ParseOptions
	checkLease     func(headgate.Algorithm) (warning string, err error)

	nameBytes     int // total length of the names of all rules, at most maxNameBytes
	comparedBytes int // number of bytes that warnUnreachable has compared; it stops above maxComparedBytes
}

// Domain returns the domain with the given name, or nil.
func (c *Config) Domain(name string) *Domain { return c.domains[name] }

// Domains returns the number of domains.
func (c *Config) Domains() int { return len(c.domains) }

// Rules returns all rules in the order of the files. The caller must not change the
// slice or the rules.
func (c *Config) Rules() []*Rule { return c.rules }

// Warnings returns warnings about configuration that is valid but probably does not
// have the intended effect.
func (c *Config) Warnings() []Warning { return c.warnings }

// Rule is a rate_limit with the options of its descriptor. It must not be modified.
type Rule struct {
	// Name is returned in responses, and other rules refer to it in replaces; may be
	// empty.
	Name string
	// Replaces has the names of the rules that do not apply to a request to which this
	// rule applies.
	Replaces []string
	// Unlimited means that the rule allows all requests and counts nothing.
	Unlimited bool
	// Shadow means that the rule counts and reports requests, but never denies them.
	Shadow bool
	// Quota means that the rule is in quota mode. Of the rules that apply to a request,
	// those in quota mode deny it only if all of them are over their limits.
	Quota bool
	// Detailed means that the rule's metric names contain the values of the request;
	// see [Matcher.AppendStat].
	Detailed bool
	// Metadata is returned in responses unless the rule denies; may be nil.
	Metadata *structpb.Struct
	// Limits are the limits of the rule; a request is charged to all of them or to
	// none. Limits is empty if Unlimited is set.
	Limits []Limit
	// Path is the rule's name in metrics, such as domain.key_value.key.
	Path string
	// Index is the index of the rule in [Config.Rules].
	Index int

	variableName bool // the rule or a level above it has value_to_metric
}

// Limit is one limit of a rule.
type Limit struct {
	// Inline is the limit in the form that the engine uses. It is nil if the limit is
	// 0, so that no request is allowed.
	Inline *engine.InlineLimit
	// Requests and Unit are returned in responses. Requests is larger than the rate of
	// Inline if the algorithm cannot count that many requests. It is the maximum of
	// uint32 if the rate is larger.
	Requests uint32
	Unit     Unit
	// Period is the period of the limit; 0 if it has only a calendar.
	Period time.Duration
	// Calendar has the windows of the limit if they are those of a calendar; otherwise
	// nil.
	Calendar *calendar.Calendar
	// Windows is true if the limit has fixed windows whose length is a whole number of
	// seconds, aligned to the Unix epoch, or windows of a calendar. Responses then
	// contain the number of whole seconds until the next window.
	Windows bool
}

// SharesState reports whether l and other use the same state for the same key.
func (l Limit) SharesState(other Limit) bool {
	return l.Inline != nil && other.Inline != nil && l.Inline.Scope == other.Inline.Scope && l.Inline.Algorithm == other.Inline.Algorithm
}

// MakeLimit returns a limit on the requests in each fixed window of a period, as in
// envoyproxy/ratelimit, and the InlineLimit for the engine. Limits with the same period
// share state. If the period is the length of a [Unit], MakeLimit does not allocate the
// scope.
//
// If calendarMonth is true, the windows are the months of the calendar in UTC, as with
// USE_CALENDAR_MONTH_RATE_LIMIT, and period must be the length of [Month].
func MakeLimit(requests uint32, period time.Duration, calendarMonth bool) (l Limit, inline engine.InlineLimit) {
	l = Limit{Requests: requests, Unit: unitOf(period), Period: period, Windows: true}
	if calendarMonth {
		l.Calendar = months
	}
	if requests == 0 {
		return l, inline
	}
	inline = engine.InlineLimit{
		Scope:     scopeOf(period, 0),
		Limit:     headgate.Limit{Rate: int64(requests), Period: period},
		Algorithm: headgate.FixedWindow,
		Name:      "envoy",
	}
	if calendarMonth {
		inline.Algorithm, inline.Limit.Period = headgate.CalendarWindow, 0
		inline.Limit.Calendar = headgate.Calendar{Unit: headgate.CalendarMonth}
	}
	return l, inline
}

// months are the months of the calendar in UTC.
var months, _ = calendar.New(calendar.Month, "", 0)
