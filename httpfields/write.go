package httpfields

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// The names of the fields in the canonical form of [http.Header].
const (
	policyKey       = "Ratelimit-Policy"
	rateLimitKey    = "Ratelimit"
	limitKey        = "Ratelimit-Limit"
	remainingKey    = "Ratelimit-Remaining"
	resetKey        = "Ratelimit-Reset"
	xLimitKey       = "X-Ratelimit-Limit"
	xRemainingKey   = "X-Ratelimit-Remaining"
	xResetKey       = "X-Ratelimit-Reset"
	xUsedKey        = "X-Ratelimit-Used"
	xResourceKey    = "X-Ratelimit-Resource"
	retryAfterKey   = "Retry-After"
	cacheControlKey = "Cache-Control"
	exposeKey       = "Access-Control-Expose-Headers"
)

// noStore is the value of Cache-Control on every denial. It must not be modified.
var noStore = []string{"no-store"}

// summary is the part of all decisions on one request that the fields report. It agrees
// with [headgate.AllowAll].
type summary struct {
	// index of the decision with the fewest remaining units; the first, if several are
	// equal
	tightest int
	denied   bool
	near     bool  // true if at most a tenth of at least one limit remains
	retry    int64 // value of Retry-After in seconds; 0 if it is not sent
}

func summarize(decisions []headgate.Decision) (a summary) {
	var wait time.Duration
	never := false
	for i := range decisions {
		d := &decisions[i]
		if d.Remaining < decisions[a.tightest].Remaining {
			a.tightest = i
		}
		a.near = a.near || d.Remaining <= d.Limit/10
		if d.Allowed {
			continue
		}
		a.denied, never = true, never || d.Never
		wait = max(wait, d.RetryAfter)
	}
	if a.denied && !never {
		a.retry = max(1, seconds(wait))
	}
	return a
}

// Write adds the header fields of one response to h. decisions must have one element
// for each limit of s, in the same order. The parameter now is the time of the
// response; see [Writer.NeedsTime].
//
// List fields are appended to the existing values in h. Most clients cannot parse two
// values of a single-valued field, so if h already has such fields, only the values
// with fewer remaining units stay. If the combined decision is a denial, Write sets
// Cache-Control: no-store, and Retry-After in whole seconds, rounded up, at least 1.
// Retry-After is omitted if waiting does not help.
//
// Write appends the values to text, and h refers to the memory of text, so each
// response needs a new strings.Builder. If text has room for about 128 bytes, a call
// makes one further allocation. Values that are the same in all responses are shared
// between responses. Do not modify the values in h; replace them, as the methods of
// [http.Header] do.
func (w *Writer) Write(h http.Header, s *Set, decisions []headgate.Decision, now time.Time, text *strings.Builder) {
	a := summarize(decisions)
	send := a.denied || w.when == Always || w.when == NearLimit && a.near
	fw := fieldWriter{h: h, start: text.Len()}
	if n := w.valueCount(send, a.retry > 0); n > 0 {
		fw.values = make([]string, 0, n)
	}
	if a.denied {
		fw.writeDenial(text, a.retry)
	}
	if s.hasUnreported {
		a.tightest = s.tightest(decisions, anyUnit)
	}
	if !send || a.tightest < 0 {
		return
	}
	if s.hasCalendar {
		s = s.during(w, now)
	}
	rep := report{limit: &s.limits[a.tightest], Decision: &decisions[a.tightest], summary: a, now: now}
	if w.ietf {
		fw.writeIETF(text, w, s, decisions, &rep)
	}
	if w.draft07 || w.draft06 || w.draft03 {
		fw.writeDrafts(text, w, s, &rep)
	}
	if w.xReset != resetNone {
		fw.writeX(text, w, &rep)
	}
	if w.openAI {
		fw.writeUnits(text, openAIFields, s, decisions, now, false)
	}
	if w.anthropic {
		fw.writeUnits(text, anthropicFields, s, decisions, now, true)
	}
	fw.writeExpose(w, a.denied)
}

// valueCount returns the number of values that are written for a response.
func (w *Writer) valueCount(send, retry bool) int {
	n := 0
	if send {
		n = w.variableValues
	}
	if retry {
		n++
	}
	return n
}

// report is the limit that the fields of a response report, with its decision and the
// summary of all decisions.
type report struct {
	*limit
	*headgate.Decision
	summary
	now time.Time
}

// remaining returns the number of remaining units, limited to the range of the fields.
func (r *report) remaining() int64 { return clamp(r.Decision.Remaining) }

// fieldWriter writes all values of a response into one text and collects them in one
// slice. The text is a parameter of each method, because a field would escape to the
// heap.
type fieldWriter struct {
	h      http.Header
	start  int // start of the current value in the text
	values []string
}

func writeInt(text *strings.Builder, n int64) {
	var digits [20]byte
	text.Write(strconv.AppendInt(digits[:0], n, 10))
}

// finishValue ends the current value and returns it as a slice with one element. The
// slice has no spare capacity, so appending to it copies it.
func (fw *fieldWriter) finishValue(text *strings.Builder) []string {
	end := text.Len()
	fw.values = append(fw.values, text.String()[fw.start:end])
	fw.start = end
	n := len(fw.values)
	return fw.values[n-1 : n : n]
}

// writeNumber writes n as a complete value.
func (fw *fieldWriter) writeNumber(text *strings.Builder, n int64) []string {
	writeInt(text, n)
	return fw.finishValue(text)
}

// writeDenial sets the fields that every denial has.
func (fw *fieldWriter) writeDenial(text *strings.Builder, retry int64) {
	fw.h[cacheControlKey] = noStore
	if retry == 0 {
		delete(fw.h, retryAfterKey)
		return
	}
	fw.h[retryAfterKey] = fw.writeNumber(text, retry)
}

// writeIETF writes the fields of the current draft.
func (fw *fieldWriter) writeIETF(text *strings.Builder, w *Writer, s *Set, decisions []headgate.Decision, rep *report) {
	// Usually there is nothing to merge, and merging takes as long as writing the text.
	alone := len(fw.h) == 0
	if !alone && !fw.mayAppendList(rep) {
		return
	}
	policies := s.policies
	if rep.index >= maxListed {
		policies = []string{policies[0] + ", " + rep.policyItem}
	}
	if alone {
		fw.h[policyKey] = policies
	} else {
		fw.addPolicies(policies, true)
	}
	if w.allLimits && len(decisions) > 1 {
		writeAllItems(text, s, decisions, rep)
	} else {
		writeItem(text, rep.limit, rep.Decision)
	}
	if alone {
		fw.h[rateLimitKey] = fw.finishValue(text)
	} else {
		fw.add(rateLimitKey, fw.finishValue(text))
	}
}

// writeItem writes one item of RateLimit.
func writeItem(text *strings.Builder, l *limit, d *headgate.Decision) {
	text.WriteString(l.itemPrefix)
	writeInt(text, clamp(d.Remaining))
	text.WriteString(";t=")
	writeInt(text, clamp(l.window(d)))
}

// writeAllItems writes one item of RateLimit for each limit. For a limit that is listed
// twice, it writes the item with fewer remaining units.
func writeAllItems(text *strings.Builder, s *Set, decisions []headgate.Decision, rep *report) {
	separator := ""
	for i := range decisions {
		l := &s.limits[i]
		if l.index == unreported || l.index >= maxListed && l.index != rep.index || s.hasDuplicates && s.reportedElsewhere(decisions, i) {
			continue
		}
		text.WriteString(separator)
		writeItem(text, l, &decisions[i])
		separator = ", "
	}
}

// reportedElsewhere reports whether the decision at index i is omitted, because another
// decision on the same limit has fewer remaining units or comes first.
func (s *Set) reportedElsewhere(decisions []headgate.Decision, i int) bool {
	for j := range decisions {
		less := decisions[j].Remaining - decisions[i].Remaining
		if s.limits[j].index == s.limits[i].index && (less < 0 || less == 0 && j < i) {
			return true
		}
	}
	return false
}

// writeDrafts writes the fields of the earlier drafts.
func (fw *fieldWriter) writeDrafts(text *strings.Builder, w *Writer, s *Set, rep *report) {
	written := false
	if w.draft07 && fw.mayReplaceDictionary(rep) {
		written = true
		text.WriteString("limit=")
		text.WriteString(rep.limitText())
		text.WriteString(", remaining=")
		writeInt(text, rep.remaining())
		text.WriteString(", reset=")
		writeInt(text, rep.draftReset())
		fw.h[rateLimitKey] = fw.finishValue(text)
	}
	if (w.draft06 || w.draft03) && fw.mayReplace(remainingKey, rep) {
		written = true
		fw.h[limitKey] = rep.limitField(w.draft03)
		fw.h[remainingKey] = fw.writeNumber(text, rep.remaining())
		fw.h[resetKey] = fw.writeNumber(text, rep.draftReset())
	}
	if s.draftPolicies != nil && (w.draft07 || w.draft06) {
		fw.addPolicies(s.draftPolicies, written)
	}
}

// draftReset returns the value of Reset in the earlier drafts: the value of Retry-After
// for a denial, otherwise the effective window.
func (r *report) draftReset() int64 {
	if r.retry > 0 {
		return clamp(r.retry)
	}
	return clamp(r.limit.window(r.Decision))
}

// limitText returns the capacity of the limit in decimal. If the failure mode applied
// only a share of the limit, limitText returns the capacity of the share.
func (r *report) limitText() string {
	if r.Decision.Limit == r.Capacity {
		return r.capacityText
	}
	return strconv.FormatInt(clamp(r.Decision.Limit), 10)
}

// limitField returns the value of the field for the limit. If withPolicies is true, the
// policies are appended to the value.
func (r *report) limitField(withPolicies bool) []string {
	switch {
	case r.Decision.Limit != r.Capacity && withPolicies:
		return []string{r.limitText() + strings.TrimPrefix(r.capacityWithPolicies[0], r.capacityText)}
	case r.Decision.Limit != r.Capacity:
		return []string{r.limitText()}
	case withPolicies:
		return r.capacityWithPolicies
	default:
		return r.capacityValue
	}
}

// writeX writes the fields of the X-RateLimit family.
func (fw *fieldWriter) writeX(text *strings.Builder, w *Writer, rep *report) {
	if !fw.mayReplace(xRemainingKey, rep) {
		return
	}
	fw.h[xLimitKey] = rep.limitField(false)
	fw.h[xRemainingKey] = fw.writeNumber(text, rep.remaining())
	fw.h[xResetKey] = fw.writeNumber(text, rep.reset(w.xReset))
	if !w.github {
		delete(fw.h, xUsedKey) // existing values describe another limit
		delete(fw.h, xResourceKey)
		return
	}
	fw.h[xUsedKey] = fw.writeNumber(text, clamp(rep.Decision.Limit-rep.Decision.Remaining))
	fw.h[xResourceKey] = rep.resource
}

// reset returns the value of X-RateLimit-Reset: the time when all units are available
// again and, after a denial, the request is allowed. It is in seconds, rounded up.
func (r *report) reset(form resetForm) int64 {
	wait := max(0, r.ResetAfter)
	if form == resetDelta {
		return clamp(max(seconds(wait), r.retry))
	}
	second := r.now.Unix() + int64(wait/time.Second) + seconds(wait%time.Second+time.Duration(r.now.Nanosecond()))
	if r.retry > 0 {
		second = max(second, r.now.Unix()+r.retry+seconds(time.Duration(r.now.Nanosecond())))
	}
	return clamp(second)
}

// writeExpose adds the names of the fields to Access-Control-Expose-Headers.
func (fw *fieldWriter) writeExpose(w *Writer, denied bool) {
	if w.expose != nil && (w.variableValues > 0 || denied) {
		fw.addOnce(exposeKey, w.expose)
	}
}

// addPolicies appends a list of policies to RateLimit-Policy. If the field already has
// a list in another form, the list replaces it if replace is true, and is dropped
// otherwise.
func (fw *fieldWriter) addPolicies(list []string, replace bool) {
	for _, existing := range fw.h[policyKey] {
		if isList(existing) == isList(list[0]) {
			continue
		}
		if replace {
			fw.h[policyKey] = list
		}
		return
	}
	fw.addOnce(policyKey, list)
}

// add appends a value to a list field.
func (fw *fieldWriter) add(key string, value []string) {
	if existing := fw.h[key]; len(existing) > 0 {
		value = append(existing, value...)
	}
	fw.h[key] = value
}

// addOnce appends a value to a list field, unless the field already contains that
// value.
func (fw *fieldWriter) addOnce(key string, value []string) {
	if !slices.Contains(fw.h[key], value[0]) {
		fw.add(key, value)
	}
}
