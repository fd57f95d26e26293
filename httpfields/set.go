package httpfields

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// Bounds on what one answer can tell, so that no answer has a header nobody accepts.
const (
	mostListed = 32  // limits in one field, beside the tightest
	maxName    = 512 // bytes in a name; RFC 9651 has every reader take 1024
)

// noName names a limit that has no name.
const noName = "default"

// Limit is what a client is told of one limit.
type Limit struct {
	// Name is what the client knows the limit by: the policy's name, mostly. What a structured field cannot hold is replaced by an
	// underscore, and what is beyond 512 bytes is left out. Empty means “default”. Different limits of one name in one [Set] are
	// told apart by a number: “default-2”, and so on.
	Name string
	// Limit is the limit; it must be valid.
	Limit headgate.Limit
	// Algorithm is the arithmetic; the zero value means [headgate.TokenBucket].
	Algorithm headgate.Algorithm
	// AtOnce is the most that can be spent at once, in units: what a [headgate.Decision] calls its Limit, and Bound.Limit tells. 0
	// means what Limit and Algorithm say.
	Capacity int64
}

// Set is the limits that take part in one kind of request, with all that stays the same from answer to answer serialised. It
// may be used concurrently. A limit that is there twice, under two keys, is told of once.
type Set struct {
	limits   []limit  // one for each decision
	shared   bool     // some limits are there twice
	policies []string // RateLimit-Policy of the draft of today, one element; not to be changed
	numbers  []string // RateLimit-Policy of the earlier drafts; nil if no limit can be told
}

// limit is one limit, and its part of the fields.
type limit struct {
	Limit
	windowed bool     // it is no bucket
	capacity int64    // of a bucket, in units
	nth      int      // which of the different limits of the set
	name     string   // the item of RateLimit, up to its first number: "login";r=
	told     string   // the name that the fields have
	policy   string   // the item of RateLimit-Policy: "login";q=5;w=900
	atOnce   string   // AtOnce, in digits
	alone    []string // the same as a field's value; not to be changed, like those below
	listed   []string // the same, and the policies behind it: RateLimit-Limit of draft-03
	resource []string // X-RateLimit-Resource
}

// Set prepares limits, of which there must be at least one, in the order of the decisions to come. It panics if there is none or
// one is not valid.
func (w *Writer) Set(limits ...Limit) *Set {
	if len(limits) == 0 {
		panic("httpfields: a set needs a limit")
	}
	s := &Set{limits: make([]limit, len(limits))}
	first := make(map[Limit]int, len(limits))
	taken := make(map[string]int, len(limits))
	for i, l := range limits {
		l = l.normal()
		if at, found := first[l]; found {
			s.limits[i], s.shared = s.limits[at], true
			continue
		}
		s.limits[i] = newLimit(l, len(first), distinct(l.Name, taken))
		first[l] = i
	}
	s.list(w)
	return s
}

// Name is what the fields call the i-th limit, from 0: for bodies and logs that name it as well.
func (s *Set) Name(i int) string { return s.limits[i].told }

// normal is l with its defaults filled in, and a name that fields can hold.
func (l Limit) normal() Limit {
	if err := l.Limit.Validate(); err != nil {
		panic("httpfields: " + err.Error())
	}
	if l.Algorithm == "" || l.Algorithm == headgate.GCRA {
		l.Algorithm = headgate.TokenBucket
	}
	if l.Capacity <= 0 {
		l.Capacity = l.Limit.Capacity()
		if !l.bucket() {
			l.Capacity = l.Limit.Rate
		}
	}
	l.Capacity = clamp(l.Capacity)
	if l.Name = safeName(l.Name); l.Name == "" {
		l.Name = noName
	}
	return l
}

// bucket reports whether the limit is a bucket, which refills. For an algorithm that is not known the fields have only the waits of
// its decisions, as for a window.
func (l Limit) bucket() bool {
	refill := l.Algorithm.Refill()
	return refill == headgate.RefillContinuous || refill == headgate.RefillStepped
}

// safeName replaces what a string of a structured field cannot hold.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
	return name[:min(len(name), maxName)]
}

// distinct is name, or name with the first number behind it that makes it different from all that are taken: by name, the number
// tried last.
func distinct(name string, taken map[string]int) string {
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
	atOnce := strconv.FormatInt(l.Capacity, 10)
	return limit{
		Limit:    l,
		windowed: !l.bucket(),
		capacity: l.Limit.Capacity(),
		nth:      nth,
		name:     item + ";r=",
		told:     name,
		policy:   item + ";q=" + strconv.FormatInt(quota, 10) + parameters(quota, window, l.Capacity),
		atOnce:   atOnce,
		alone:    []string{atOnce},
		resource: []string{resource(name)},
	}
}

// escapes are those of a string of a structured field.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted is name as a string of a structured field.
func quoted(name string) string { return `"` + escapes.Replace(name) + `"` }

// resource is name as a field's whole value, around which readers drop spaces.
func resource(name string) string {
	if name = strings.TrimSpace(name); name != "" {
		return name
	}
	return noName
}

// parameters are those behind a quota. A window of 0 cannot be told; what can be spent at once is, where it is not the quota.
func parameters(quota, window, atOnce int64) string {
	var p string
	if window > 0 {
		p = ";w=" + strconv.FormatInt(window, 10)
	}
	if atOnce != quota {
		p += ";headgate-burst=" + strconv.FormatInt(atOnce, 10)
	}
	return p
}

// quotaWindow is a limit in whole seconds: as it is, or for a part of a second the quota of one second, if that is whole: 3/300ms is
// 10 a second. For other periods the window is 0: it cannot be told.
func quotaWindow(l headgate.Limit) (quota, window int64) {
	period := int64(l.Period / time.Microsecond)
	aSecond := l.Rate * 1e6 // units per second, times the period in µs; at most 1e15
	switch {
	case period%1e6 == 0:
		return l.Rate, period / 1e6
	case period < 1e6 && aSecond%period == 0:
		return aSecond / period, 1
	default:
		return l.Rate, 0
	}
}

// list serialises the lists of all limits, as far as w sends them.
func (s *Set) list(w *Writer) {
	if w.ietf {
		var items []string
		for i := range s.limits {
			if l := &s.limits[i]; l.nth == len(items) && l.nth < mostListed {
				items = append(items, l.policy)
			}
		}
		s.policies = []string{strings.Join(items, ", ")}
	}
	if !w.draft07 && !w.draft06 && !w.draft03 {
		return
	}
	numbers := s.numbered()
	if len(numbers) > 0 {
		s.numbers = []string{strings.Join(numbers, ", ")}
	}
	for i := range s.limits {
		l := &s.limits[i]
		l.listed = []string{strings.Join(append([]string{l.atOnce}, numbers...), ", ")}
	}
}

// numbered are the items of the earlier drafts: numbers, where a window is required and no two may be equal. Of limits with one
// quota the longest window is told, which holds for the shorter ones as well.
func (s *Set) numbered() []string {
	var items []string
	var quotas, windows []int64
	for i := range s.limits {
		l := &s.limits[i]
		quota, window := quotaWindow(l.Limit.Limit)
		item := strconv.FormatInt(quota, 10) + parameters(quota, window, l.Capacity)
		at := slices.Index(quotas, quota)
		switch {
		case window == 0:
		case at < 0 && len(items) < mostListed:
			items, quotas, windows = append(items, item), append(quotas, quota), append(windows, window)
		case at >= 0 && window > windows[at]:
			items[at], windows[at] = item, window
		}
	}
	return items
}
