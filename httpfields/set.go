package httpfields

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/calendar"
)

// Limits on the size of the fields in one response, so that clients and proxies accept
// its header.
const (
	maxListed = 32  // maximum of limits in one field, not counting the tightest
	maxName   = 512 // maximum of bytes in a name; RFC 9651 requires parsers to accept 1024
)

// defaultName is the name in the fields of a limit without a name.
const defaultName = "default"

// Limit describes one limit that the header fields report.
type Limit struct {
	// Name is the name of the limit in the fields, usually the name of the policy.
	// Characters that are not allowed in a structured field are replaced with
	// underscores, and names are truncated to 512 bytes. Empty means “default”. If
	// different limits in one [Set] have the same name, a number is appended:
	// “default-2”, and so on.
	Name string
	// Limit is the rate limit. It must be valid, or [headgate.Unlimited] or
	// [headgate.Blocked], which have no fields.
	Limit headgate.Limit
	// Algorithm is the algorithm of the limit. The zero value means
	// [headgate.TokenBucket].
	Algorithm headgate.Algorithm
	// Capacity is the maximum number of units that one request can spend, the value of
	// [headgate.Decision].Limit. 0 means the capacity of Limit under Algorithm.
	Capacity int64
	// Unit is what the limit counts, for the dialects [OpenAI] and [Anthropic]. The zero
	// value means [Requests].
	Unit Unit
}

// unreported is the index of a limit without fields.
const unreported = -1

// Set is a list of limits that apply together to requests. It contains the text of
// everything that is the same in all responses. It may be used concurrently. A limit
// that is in the list twice, for two keys, is reported only once.
type Set struct {
	limits        []limit // limits in the order of the decisions
	hasDuplicates bool    // true if at least one limit is listed twice
	hasUnreported bool    // true if at least one limit has no fields
	// value of RateLimit-Policy in the current draft, one element; must not be modified
	policies []string
	// value of RateLimit-Policy in the earlier drafts, nil if they can express none of
	// the limits
	draftPolicies []string

	hasCalendar bool // true if a limit has a calendar, whose windows differ in length
	at          atomic.Pointer[setAt]
}

// limit is one limit of a set and its text in the fields.
type limit struct {
	Limit
	calendar       *calendar.Calendar // nil if all windows have the same length
	quota, seconds int64              // quota, and its window in seconds; 0 if the fields cannot express the window
	windowed       bool               // true if the algorithm is not a bucket
	bucketCapacity int64              // capacity of a bucket, in units
	index          int                // position among the distinct limits of the set
	itemPrefix     string             // beginning of the limit's item in RateLimit: "login";r=
	fieldName      string             // name in the fields
	policyItem     string             // the limit's item in RateLimit-Policy: "login";q=5;w=900
	capacityText   string             // Capacity in decimal
	// capacityText as a field value; this and the next slices must not be modified
	capacityValue []string
	// value of RateLimit-Limit in draft-03: capacityText, then the policies
	capacityWithPolicies []string
	resource             []string // value of X-RateLimit-Resource
}

// Set prepares limits for [Writer.Write], which expects decisions in the same order. It
// panics if limits is empty or a limit is invalid.
func (w *Writer) Set(limits ...Limit) *Set {
	if len(limits) == 0 {
		panic("httpfields: Set requires at least one limit")
	}
	s := &Set{limits: make([]limit, len(limits))}
	first := make(map[Limit]int, len(limits))
	taken := make(map[string]int, len(limits))
	for i, l := range limits {
		if l.Limit.IsUnlimited() || l.Limit.IsBlocked() {
			s.limits[i] = limit{Limit: l, index: unreported, fieldName: uniqueName(l.name(), taken)}
			s.hasUnreported = true
			continue
		}
		l = l.normalize()
		if at, ok := first[l]; ok {
			s.limits[i], s.hasDuplicates = s.limits[at], true
			continue
		}
		s.limits[i] = newLimit(l, len(first), uniqueName(l.Name, taken))
		if s.limits[i].calendar != nil {
			s.hasCalendar = true
		}
		first[l] = i
	}
	s.serialize(w)
	return s
}

// Name returns the name in the fields of the limit with index i. Use it for a body or a
// log that must contain the same name.
func (s *Set) Name(i int) string { return s.limits[i].fieldName }

// normalize returns a copy of l with defaults for zero values and with a name that is
// valid in fields. It panics if the limit is invalid.
func (l Limit) normalize() Limit {
	if err := l.Limit.Validate(); err != nil {
		panic("httpfields: " + err.Error())
	}
	if l.isBucket() && l.Limit.Rate > l.Algorithm.MaxRate() {
		panic("httpfields: the rate of " + l.Limit.String() + " is above the maximum of its algorithm")
	}
	if l.Algorithm = l.Algorithm.For(l.Limit); l.Algorithm == "" || l.Algorithm == headgate.GCRA {
		l.Algorithm = headgate.TokenBucket
	}
	if l.Capacity <= 0 {
		l.Capacity = l.Limit.Capacity()
		if !l.isBucket() {
			l.Capacity = l.Limit.Rate
		}
	}
	l.Capacity = clamp(l.Capacity)
	l.Name = l.name()
	if l.Unit == "" {
		l.Unit = Requests
	}
	return l
}

// name returns the name in the fields, without the number that makes it unique.
func (l Limit) name() string { return cmp.Or(safeName(l.Name), defaultName) }

// isBucket reports whether the limit is a bucket that refills. If not, or if the
// algorithm is unknown, the fields are calculated only from the waits in the decisions.
func (l Limit) isBucket() bool {
	refill := l.Algorithm.Refill()
	return refill == headgate.RefillContinuous || refill == headgate.RefillStepped
}

// safeName returns name with all characters replaced that are invalid in a structured
// field, truncated to maxName bytes.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
	return name[:min(len(name), maxName)]
}

// uniqueName returns name, or name with the lowest number that makes it different from
// all names in taken. The map taken contains, for each name, the last number that was
// tried.
func uniqueName(name string, taken map[string]int) string {
	if taken[name] == 0 {
		taken[name] = 1
		return name
	}
	for {
		taken[name]++
		unique := name + "-" + strconv.Itoa(taken[name])
		if taken[unique] == 0 {
			taken[unique] = 1
			return unique
		}
	}
}

func newLimit(l Limit, nth int, name string) limit {
	item := quoted(name)
	capacity := strconv.FormatInt(l.Capacity, 10)
	made := limit{
		Limit:          l,
		calendar:       calendarOf(l),
		windowed:       !l.isBucket(),
		bucketCapacity: l.Limit.Capacity(),
		index:          nth,
		itemPrefix:     item + ";r=",
		fieldName:      name,
		capacityText:   capacity,
		capacityValue:  []string{capacity},
		resource:       []string{resource(name)},
	}
	made.setWindow(quotaWindow(l.Limit))
	return made
}

// setWindow sets the quota, its window in seconds, and the item in RateLimit-Policy.
func (l *limit) setWindow(quota, window int64) {
	l.quota, l.seconds = quota, window
	l.policyItem = quoted(l.fieldName) + ";q=" + strconv.FormatInt(quota, 10) + policyParameters(quota, window, l.Capacity)
}

// escapes escapes the characters that are special in a string of a structured field.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted returns name as a string of a structured field.
func quoted(name string) string { return `"` + escapes.Replace(name) + `"` }

// resource returns name as a whole field value. Parsers trim spaces, so a name of
// spaces is replaced with the default.
func resource(name string) string {
	if name = strings.TrimSpace(name); name != "" {
		return name
	}
	return defaultName
}

// policyParameters returns the parameters that follow the quota in a policy item. A
// window of 0 cannot be expressed and is omitted. The capacity is included only if it
// differs from the quota.
func policyParameters(quota, window, capacity int64) string {
	var p string
	if window > 0 {
		p = ";w=" + strconv.FormatInt(window, 10)
	}
	if capacity != quota {
		p += ";headgate-burst=" + strconv.FormatInt(capacity, 10)
	}
	return p
}

// quotaWindow returns the quota of a limit and its window in whole seconds. A period
// below one second is converted to a window of one second if the quota is then a whole
// number: 3/300ms is 10 per second. For all other fractional periods the window is 0,
// because the fields cannot express it. The quota is at most maxInteger.
func quotaWindow(l headgate.Limit) (quota, window int64) {
	period := int64(l.Period / time.Microsecond)
	if period%1e6 == 0 {
		return clamp(l.Rate), period / 1e6
	}
	if period < 1e6 && l.Rate <= headgate.MaxUnits {
		perSecond := l.Rate * 1e6 // units per second times the period in µs; at most 1e15
		if perSecond%period == 0 {
			return perSecond / period, 1
		}
	}
	return clamp(l.Rate), 0
}

// serialize builds the lists of policies that w sends.
func (s *Set) serialize(w *Writer) {
	if w.ietf {
		var items []string
		for i := range s.limits {
			if l := &s.limits[i]; l.index == len(items) && l.index < maxListed {
				items = append(items, l.policyItem)
			}
		}
		s.policies = []string{strings.Join(items, ", ")}
	}
	if !w.draft07 && !w.draft06 && !w.draft03 {
		return
	}
	items := s.draftItems()
	if len(items) > 0 {
		s.draftPolicies = []string{strings.Join(items, ", ")}
	}
	for i := range s.limits {
		l := &s.limits[i]
		l.capacityWithPolicies = []string{strings.Join(append([]string{l.capacityText}, items...), ", ")}
	}
}

// draftItems returns the policy items of the earlier drafts. Each item is a quota with
// a window, and no quota may occur twice. For limits with the same quota only the
// longest window is listed, because a client that observes that limit also observes the
// shorter ones.
func (s *Set) draftItems() []string {
	var items []string
	var quotas, windows []int64
	for i := range s.limits {
		l := &s.limits[i]
		quota, window := l.quota, l.seconds
		item := strconv.FormatInt(quota, 10) + policyParameters(quota, window, l.Capacity)
		at := slices.Index(quotas, quota)
		switch {
		case window == 0:
		case at < 0 && len(items) < maxListed:
			items, quotas, windows = append(items, item), append(quotas, quota), append(windows, window)
		case at >= 0 && window > windows[at]:
			items[at], windows[at] = item, window
		}
	}
	return items
}
