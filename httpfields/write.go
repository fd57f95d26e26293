package httpfields

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// The names of the fields as [http.Header] keeps them.
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

// noStore is the value of Cache-Control on every denial; not to be changed.
var noStore = []string{"no-store"}

// answer is what the fields report about all decisions on one request. It agrees with
// [headgate.AllowAll].
type answer struct {
	tightest int // the index of the decision with the least Remaining, the first of equals
	denied   bool
	near     bool  // of some limit a tenth or less remains
	retry    int64 // Retry-After in seconds; 0 if it is not sent
}

func combined(decisions []headgate.Decision) (a answer) {
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

// Write adds the fields of one answer to h: decisions has one element for each limit of s, in its order. Fields that are lists
// are appended to what h holds. Of those that are not, a family that h holds already stays if it has as little remaining: two
// values in one field are none to most readers. On a denial, all decisions together, it sets Retry-After, in whole seconds
// rounded up and at least 1, unless no wait helps, and Cache-Control: no-store. now is the instant of the answer.
//
// The text of the values is written to text, which must outlive h's use: one strings.Builder for each answer, and with room
// for some 128 bytes in it a call makes one allocation beside. Values that are the same in all answers are shared among them:
// whoever changes h later sets its values anew, as the methods of [http.Header] do.
func (w *Writer) Write(h http.Header, s *Set, decisions []headgate.Decision, now time.Time, text *strings.Builder) {
	a := combined(decisions)
	tells := a.denied || w.when == Always || w.when == NearLimit && a.near
	p := pen{h: h, start: text.Len()}
	if n := w.valuesOf(tells, a.retry > 0); n > 0 {
		p.values = make([]string, 0, n)
	}
	if a.denied {
		p.deny(text, a.retry)
	}
	if !tells {
		return
	}
	told := report{limit: &s.limits[a.tightest], Decision: &decisions[a.tightest], answer: a, now: now}
	if w.ietf {
		p.ietf(text, w, s, decisions, &told)
	}
	if w.draft07 || w.draft06 || w.draft03 {
		p.drafts(text, w, s, &told)
	}
	if w.x != noX {
		p.x(text, w, &told)
	}
	p.expose(w, a.denied)
}

// valuesOf is how many values an answer writes anew.
func (w *Writer) valuesOf(tells, retry bool) int {
	n := 0
	if tells {
		n = w.varying
	}
	if retry {
		n++
	}
	return n
}

// report is the limit that an answer tells of, and what it says.
type report struct {
	*limit
	*headgate.Decision
	answer
	now time.Time
}

// remaining is what is left, in units.
func (r *report) remaining() int64 { return clamp(r.Decision.Remaining) }

// pen writes values one after another into one text, and keeps them in one slice. The text is passed to each method: kept here,
// it would cost its owner an allocation.
type pen struct {
	h      http.Header
	start  int // of the value that is being written
	values []string
}

func writeInt(text *strings.Builder, n int64) {
	var digits [20]byte
	text.Write(strconv.AppendInt(digits[:0], n, 10))
}

// value ends the value that is being written. Its capacity is its length, so that whoever appends to it copies it.
func (p *pen) value(text *strings.Builder) []string {
	end := text.Len()
	p.values = append(p.values, text.String()[p.start:end])
	p.start = end
	n := len(p.values)
	return p.values[n-1 : n : n]
}

// number is n as a field's whole value.
func (p *pen) number(text *strings.Builder, n int64) []string {
	writeInt(text, n)
	return p.value(text)
}

// deny sets what every denial has.
func (p *pen) deny(text *strings.Builder, retry int64) {
	p.h[cacheControlKey] = noStore
	if retry == 0 {
		delete(p.h, retryAfterKey)
		return
	}
	p.h[retryAfterKey] = p.number(text, retry)
}

// ietf writes the fields of the draft of today.
func (p *pen) ietf(text *strings.Builder, w *Writer, s *Set, decisions []headgate.Decision, told *report) {
	alone := len(p.h) == 0 // nothing to be merged with: that is most answers, and a look at each field costs as much as its text
	if !alone && !p.mayList(told) {
		return
	}
	policies := s.policies
	if told.nth >= mostListed {
		policies = []string{policies[0] + ", " + told.policy}
	}
	if alone {
		p.h[policyKey] = policies
	} else {
		p.addPolicies(policies, true)
	}
	if w.every && len(decisions) > 1 {
		writeEvery(text, s, decisions, told)
	} else {
		writeItem(text, told.limit, told.Decision)
	}
	if alone {
		p.h[rateLimitKey] = p.value(text)
	} else {
		p.add(rateLimitKey, p.value(text))
	}
}

// writeItem writes one item of RateLimit.
func writeItem(text *strings.Builder, l *limit, d *headgate.Decision) {
	text.WriteString(l.name)
	writeInt(text, clamp(d.Remaining))
	text.WriteString(";t=")
	writeInt(text, clamp(l.window(d)))
}

// writeEvery writes one item for each limit, and of those that are there twice the one with less remaining.
func writeEvery(text *strings.Builder, s *Set, decisions []headgate.Decision, told *report) {
	separator := ""
	for i := range decisions {
		l := &s.limits[i]
		if l.nth >= mostListed && l.nth != told.nth || s.shared && s.toldElsewhere(decisions, i) {
			continue
		}
		text.WriteString(separator)
		writeItem(text, l, &decisions[i])
		separator = ", "
	}
}

// toldElsewhere reports whether another decision on the same limit is told in place of the i-th.
func (s *Set) toldElsewhere(decisions []headgate.Decision, i int) bool {
	for j := range decisions {
		less := decisions[j].Remaining - decisions[i].Remaining
		if s.limits[j].nth == s.limits[i].nth && (less < 0 || less == 0 && j < i) {
			return true
		}
	}
	return false
}

// drafts writes the fields of the earlier drafts.
func (p *pen) drafts(text *strings.Builder, w *Writer, s *Set, told *report) {
	tells := false
	if w.draft07 && p.mayReplaceDictionary(told) {
		tells = true
		text.WriteString("limit=")
		text.WriteString(told.limitText())
		text.WriteString(", remaining=")
		writeInt(text, told.remaining())
		text.WriteString(", reset=")
		writeInt(text, told.wait())
		p.h[rateLimitKey] = p.value(text)
	}
	if (w.draft06 || w.draft03) && p.mayReplace(remainingKey, told) {
		tells = true
		p.h[limitKey] = told.limitField(w.draft03)
		p.h[remainingKey] = p.number(text, told.remaining())
		p.h[resetKey] = p.number(text, told.wait())
	}
	if s.numbers != nil && (w.draft07 || w.draft06) {
		p.addPolicies(s.numbers, tells)
	}
}

// wait is the Reset of the earlier drafts: on a denial the same as Retry-After, otherwise the effective window.
func (r *report) wait() int64 {
	if r.retry > 0 {
		return clamp(r.retry)
	}
	return clamp(r.limit.window(r.Decision))
}

// limitText is what can be spent at once, in digits. A decision that was not the store's may be on a share of it.
func (r *report) limitText() string {
	if r.Decision.Limit == r.Capacity {
		return r.atOnce
	}
	return strconv.FormatInt(clamp(r.Decision.Limit), 10)
}

// limitField is the field of the same name, with the policies behind it if they are wanted.
func (r *report) limitField(withPolicies bool) []string {
	switch {
	case r.Decision.Limit != r.Capacity && withPolicies:
		return []string{r.limitText() + strings.TrimPrefix(r.listed[0], r.atOnce)}
	case r.Decision.Limit != r.Capacity:
		return []string{r.limitText()}
	case withPolicies:
		return r.listed
	default:
		return r.alone
	}
}

// x writes the X-RateLimit family.
func (p *pen) x(text *strings.Builder, w *Writer, told *report) {
	if !p.mayReplace(xRemainingKey, told) {
		return
	}
	p.h[xLimitKey] = told.limitField(false)
	p.h[xRemainingKey] = p.number(text, told.remaining())
	p.h[xResetKey] = p.number(text, told.reset(w.x))
	if !w.github {
		delete(p.h, xUsedKey) // another limit's
		delete(p.h, xResourceKey)
		return
	}
	p.h[xUsedKey] = p.number(text, clamp(told.Decision.Limit-told.Decision.Remaining))
	p.h[xResourceKey] = told.resource
}

// reset is when all of the limit is there again, and a request that was denied is admitted: in seconds rounded up.
func (r *report) reset(form xForm) int64 {
	wait := max(0, r.ResetAfter)
	if form == fromNow {
		return clamp(max(seconds(wait), r.retry))
	}
	second := r.now.Unix() + int64(wait/time.Second) + seconds(wait%time.Second+time.Duration(r.now.Nanosecond()))
	if r.retry > 0 {
		second = max(second, r.now.Unix()+r.retry+seconds(time.Duration(r.now.Nanosecond())))
	}
	return clamp(second)
}

// expose makes the fields readable for scripts of other origins.
func (p *pen) expose(w *Writer, denied bool) {
	if w.expose != nil && (w.varying > 0 || denied) {
		p.addOnce(exposeKey, w.expose)
	}
}

// addPolicies adds a list of policies. If the one there is of another form, it is replaced or stays.
func (p *pen) addPolicies(list []string, replace bool) {
	for _, there := range p.h[policyKey] {
		if isList(there) == isList(list[0]) {
			continue
		}
		if replace {
			p.h[policyKey] = list
		}
		return
	}
	p.addOnce(policyKey, list)
}

// add appends a value to a field that is a list.
func (p *pen) add(key string, value []string) {
	if there := p.h[key]; len(there) > 0 {
		value = append(there, value...)
	}
	p.h[key] = value
}

// addOnce is add for a value that nobody needs twice.
func (p *pen) addOnce(key string, value []string) {
	if !slices.Contains(p.h[key], value[0]) {
		p.add(key, value)
	}
}
