package httpfields

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// Bounds on the fields of one response, so that clients and proxies accept its header.
const (
	maxListed = 32  // limits in one field, in addition to the tightest
	maxName   = 512 // bytes in a name; RFC 9651 requires parsers to accept 1024
)

// defaultName is the name of a limit without a name.
const defaultName = "default"

// Limit describes one limit for the header fields.
type Limit struct {
	// Name is the limit's name in the fields, usually the policy's name. Characters
	// that a structured field cannot contain are replaced with underscores, and names
	// are cut after 512 bytes. Empty means “default”. Different limits with the same
	// name in one [Set] get a number: “default-2”, and so on.
	Name string
	// Limit is the rate limit. It must be valid.
	Limit headgate.Limit
	// Algorithm is the algorithm of the limit. The zero value means
	// [headgate.TokenBucket].
	Algorithm headgate.Algorithm
	// Capacity is the maximum number of units that one request can spend. It is the
	// value of [headgate.Decision].Limit and of Bound.Limit. 0 means the capacity of
	// Limit under Algorithm.
	Capacity int64
}

// Set is the limits that apply to one kind of request. It has the serialised text of
// everything that is the same in all responses. It may be used concurrently. A limit
// that is listed twice, for two keys, is reported once.
type Set struct {
	limits        []limit // one for each decision
	hasDuplicates bool    // at least one limit is listed twice
	// RateLimit-Policy of the current draft, one element; must not be modified
	policies []string
	// RateLimit-Policy of the earlier drafts, nil if they can express no limit
	draftPolicies []string
}

// limit is one limit and its text in the fields.
type limit struct {
	Limit
	windowed       bool   // not a bucket
	bucketCapacity int64  // of a bucket, in units
	index          int    // among the distinct limits of the set
	itemPrefix     string // the beginning of its item in RateLimit: "login";r=
	fieldName      string // the name in the fields
	policyItem     string // its item in RateLimit-Policy: "login";q=5;w=900
	capacityText   string // Capacity in decimal
	// capacityText as a field's value; must not be modified, nor the following
	capacityValue []string
	// RateLimit-Limit of draft-03: capacityText, then the policies
	capacityWithPolicies []string
	resource             []string // X-RateLimit-Resource
}

// Set prepares limits for [Writer.Write], whose decisions must have the same order. It
// panics if limits is empty or a limit is invalid.
func (w *Writer) Set(limits ...Limit) *Set {
	if len(limits) == 0 {
		panic("httpfields: Set requires at least one limit")
	}
	s := &Set{limits: make([]limit, len(limits))}
	first := make(map[Limit]int, len(limits))
	taken := make(map[string]int, len(limits))
	for i, l := range limits {
		l = l.normalize()
		if at, ok := first[l]; ok {
			s.limits[i], s.hasDuplicates = s.limits[at], true
			continue
		}
		s.limits[i] = newLimit(l, len(first), uniqueName(l.Name, taken))
		first[l] = i
	}
	s.serialize(w)
	return s
}

// Name returns the name of the i-th limit, from 0, in the fields. Use it where a body
// or a log should have the same name.
func (s *Set) Name(i int) string { return s.limits[i].fieldName }

// normalize returns l with defaults in place of zero values, and a name that is valid
// in fields. It panics if the limit is invalid.
func (l Limit) normalize() Limit {
	if err := l.Limit.Validate(); err != nil {
		panic("httpfields: " + err.Error())
	}
	if l.Algorithm == "" || l.Algorithm == headgate.GCRA {
		l.Algorithm = headgate.TokenBucket
	}
	if l.Capacity <= 0 {
		l.Capacity = l.Limit.Capacity()
		if !l.isBucket() {
			l.Capacity = l.Limit.Rate
		}
	}
	l.Capacity = clamp(l.Capacity)
	if l.Name = safeName(l.Name); l.Name == "" {
		l.Name = defaultName
	}
	return l
}

// isBucket reports whether the limit is a bucket, which refills. For an unknown
// algorithm, as for a window, the fields use only the waits of the decisions.
func (l Limit) isBucket() bool {
	refill := l.Algorithm.Refill()
	return refill == headgate.RefillContinuous || refill == headgate.RefillStepped
}

// safeName returns name as a string that is valid in a structured field.
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
// all names in taken. taken maps each name to the number that was tried last.
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
	quota, window := quotaWindow(l.Limit)
	capacity := strconv.FormatInt(l.Capacity, 10)
	return limit{
		Limit:          l,
		windowed:       !l.isBucket(),
		bucketCapacity: l.Limit.Capacity(),
		index:          nth,
		itemPrefix:     item + ";r=",
		fieldName:      name,
		policyItem:     item + ";q=" + strconv.FormatInt(quota, 10) + policyParameters(quota, window, l.Capacity),
		capacityText:   capacity,
		capacityValue:  []string{capacity},
		resource:       []string{resource(name)},
	}
}

// escapes escapes the characters that are special in a string of a structured field.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted returns name as a string of a structured field.
func quoted(name string) string { return `"` + escapes.Replace(name) + `"` }

// resource returns name as a complete field value, from which parsers trim spaces.
func resource(name string) string {
	if name = strings.TrimSpace(name); name != "" {
		return name
	}
	return defaultName
}

// policyParameters returns the parameters that follow a quota. A window of 0 cannot be
// expressed. The capacity is included if it differs from the quota.
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

// quotaWindow returns a limit's quota and its window in whole seconds. A period below a
// second becomes the quota of one second if that is a whole number: 3/300ms is 10 per
// second. For other periods the window is 0: the fields cannot express it.
func quotaWindow(l headgate.Limit) (quota, window int64) {
	period := int64(l.Period / time.Microsecond)
	perSecond := l.Rate * 1e6 // units per second, times the period in µs; at most 1e15
	switch {
	case period%1e6 == 0:
		return l.Rate, period / 1e6
	case period < 1e6 && perSecond%period == 0:
		return perSecond / period, 1
	default:
		return l.Rate, 0
	}
}

// serialize writes the lists of all limits that w sends.
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

// draftItems returns the policy items of the earlier drafts. Each item is a number with
// a window, and no number may occur twice. For limits with the same quota the longest
// window is listed: a client that keeps it keeps the shorter ones, too.
func (s *Set) draftItems() []string {
	var items []string
	var quotas, windows []int64
	for i := range s.limits {
		l := &s.limits[i]
		quota, window := quotaWindow(l.Limit.Limit)
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
