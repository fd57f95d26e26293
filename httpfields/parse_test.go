package httpfields_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/root"
)

// reader checks one header against its decisions, with independent parsers.
type reader struct {
	t        testing.TB
	h        http.Header
	s        *state
	tightest int
	retry    int64 // -1 if not set
	read     int   // number of fields read
}

func newReader(t testing.TB, h http.Header, s *state) *reader {
	t.Helper()
	rd := &reader{t: t, h: h, s: s, retry: -1}
	for i, d := range s.decisions {
		if d.Remaining < s.decisions[rd.tightest].Remaining {
			rd.tightest = i
		}
	}
	all := root.Combine(s.decisions)
	if !all.Allowed && !all.Never {
		rd.retry = roundedUp(all.RetryAfter)
	}
	return rd
}

// roundedUp returns d in seconds, rounded up, calculated independently.
func roundedUp(d time.Duration) int64 {
	s := d / time.Second
	if d%time.Second > 0 {
		s++
	}
	return int64(s)
}

func (rd *reader) fail(format string, args ...any) {
	rd.t.Helper()
	rd.t.Fatalf("%s\n%s"+format, append([]any{rd.s, lines(rd.h)}, args...)...)
}

// value returns the value of a single-valued field.
func (rd *reader) value(name string) string {
	rd.t.Helper()
	values := rd.h.Values(name)
	if len(values) != 1 {
		rd.fail("%s has %d values, want 1", name, len(values))
	}
	rd.read++
	return values[0]
}

func (rd *reader) list(name string) httpsfv.List {
	rd.t.Helper()
	list, err := httpsfv.UnmarshalList([]string{rd.value(name)})
	if err != nil || len(list) == 0 {
		rd.fail("%s: %d items, %v", name, len(list), err)
	}
	return list
}

// number checks a field that is an integer.
func (rd *reader) number(name string, want int64) {
	rd.t.Helper()
	item, err := httpsfv.UnmarshalItem([]string{rd.value(name)})
	if err != nil || item.Value != want || len(item.Params.Names()) > 0 {
		rd.fail("%s is %v, %v; want %d", name, item.Value, err, want)
	}
}

func (rd *reader) param(p *httpsfv.Params, name string) (int64, bool) {
	rd.t.Helper()
	v, found := p.Get(name)
	n, isInt := v.(int64)
	if found && !isInt {
		rd.fail("%s is %v, want an integer", name, v)
	}
	return n, found
}

// perWindow reports whether a limit is q units in w seconds.
func perWindow(l httpfields.Limit, q, w int64) bool {
	p := int64(l.Limit.Period / time.Microsecond)
	return q*p == l.Limit.Rate*w*1e6 // equal also if both overflow
}

// policyParams checks the parameters of a quota.
func (rd *reader) policyParams(p *httpsfv.Params, quota int64, l httpfields.Limit) {
	rd.t.Helper()
	w, found := rd.param(p, "w")
	if found && !perWindow(l, quota, w) {
		rd.fail("%d per %d s is not %s", quota, w, l.Limit)
	}
	if !found && (l.Limit.Period%time.Second == 0 || time.Second%l.Limit.Period == 0) {
		rd.fail("%s has no w", l.Limit)
	}
	burst, found := rd.param(p, "headgate-burst")
	if found == (quota == l.Capacity) || found && burst != l.Capacity {
		rd.fail("headgate-burst is %d, %v; want %d", burst, found, l.Capacity)
	}
}

// ietf checks the current draft. It returns the t of the tightest limit.
func (rd *reader) ietf(allLimits bool) int64 {
	rd.t.Helper()
	byName := map[string]int{}
	for i, member := range rd.list("RateLimit-Policy") {
		item := member.(httpsfv.Item)
		name := item.Value.(string)
		if _, twice := byName[name]; twice {
			rd.fail("%q is there twice", name)
		}
		q, _ := rd.param(item.Params, "q")
		l := rd.s.limits[rd.distinctLimit(i)]
		byName[name] = rd.distinctLimit(i)
		if l.Name == "login" && !strings.HasPrefix(name, "login") || l.Name == "" && !strings.HasPrefix(name, "default") {
			rd.fail("the name is %q, want %q", name, l.Name)
		}
		rd.policyParams(item.Params, q, l)
	}
	list := rd.list("RateLimit")
	if !allLimits && len(list) != 1 || allLimits && len(list) != len(byName) {
		rd.fail("RateLimit has %d items", len(list))
	}
	t := int64(-1)
	for _, member := range list {
		item := member.(httpsfv.Item)
		i, known := byName[item.Value.(string)]
		if !known {
			rd.fail("RateLimit tells of %q, which RateLimit-Policy does not have", item.Value)
		}
		i = rd.leastOf(i)
		r, _ := rd.param(item.Params, "r")
		w, found := rd.param(item.Params, "t")
		if r != rd.s.decisions[i].Remaining || !found || w < 1 {
			rd.fail("r=%d;t=%d, want r=%d of limit %d", r, w, rd.s.decisions[i].Remaining, i)
		}
		if i == rd.tightest {
			t = w
		}
	}
	if t < 0 {
		rd.fail("RateLimit does not list the tightest limit")
	}
	return t
}

// same reports whether two limits look the same to a client.
func same(a, b httpfields.Limit) bool {
	plain := func(l httpfields.Limit) httpfields.Limit {
		if l.Algorithm == "" || l.Algorithm == headgate.GCRA {
			l.Algorithm = headgate.TokenBucket
		}
		if l.Name == "" {
			l.Name = "default"
		}
		return l
	}
	return plain(a) == plain(b)
}

// distinctLimit returns the index of the n-th distinct limit.
func (rd *reader) distinctLimit(n int) int {
	for i, l := range rd.s.limits {
		if slices.IndexFunc(rd.s.limits, func(o httpfields.Limit) bool { return same(o, l) }) != i {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	rd.fail("more policies than limits")
	return 0
}

// leastOf returns the index of the limit with the least remaining of those equal to the
// i-th.
func (rd *reader) leastOf(i int) int {
	minCount := i
	for j, l := range rd.s.limits {
		if same(l, rd.s.limits[i]) && rd.s.decisions[j].Remaining < rd.s.decisions[minCount].Remaining {
			minCount = j
		}
	}
	return minCount
}

// policyNumbers checks the policies of the earlier drafts.
func (rd *reader) policyNumbers(list httpsfv.List) {
	rd.t.Helper()
	seen := map[int64]bool{}
	for _, member := range list {
		item := member.(httpsfv.Item)
		q := item.Value.(int64)
		w, found := rd.param(item.Params, "w")
		burst, hasBurst := rd.param(item.Params, "headgate-burst")
		if seen[q] || !found || w < 1 {
			rd.fail("policy %d: twice %v, w=%d", q, seen[q], w)
		}
		seen[q] = true
		if !slices.ContainsFunc(rd.s.limits, func(l httpfields.Limit) bool {
			return hasBurst == (l.Capacity != q) && (!hasBurst || burst == l.Capacity) && perWindow(l, q, w)
		}) {
			rd.fail("no limit is %d;w=%d", q, w)
		}
	}
}

// wait checks the Reset of the earlier drafts: Retry-After on a denial, else t.
func (rd *reader) wait(t, late int64, isLate bool) int64 {
	switch {
	case rd.retry > 0:
		return rd.retry
	case isLate:
		return t + late
	default:
		return t
	}
}

func (rd *reader) draft07(reset int64) {
	rd.t.Helper()
	d := rd.s.decisions[rd.tightest]
	dict, err := httpsfv.UnmarshalDictionary([]string{rd.value("RateLimit")})
	if err != nil {
		rd.fail("RateLimit: %v", err)
	}
	want := map[string]int64{"limit": d.Limit, "remaining": d.Remaining, "reset": reset}
	for name, n := range want {
		if member, _ := dict.Get(name); member == nil || member.(httpsfv.Item).Value != n {
			rd.fail("%s is %v, want %d", name, member, n)
		}
	}
	if len(dict.Names()) != len(want) {
		rd.fail("RateLimit has %v", dict.Names())
	}
}

func (rd *reader) draftFields(reset int64, withPolicies bool) {
	rd.t.Helper()
	d := rd.s.decisions[rd.tightest]
	list := rd.list("RateLimit-Limit")
	if first := list[0].(httpsfv.Item); first.Value != d.Limit || len(first.Params.Names()) > 0 ||
		!withPolicies && len(list) > 1 {
		rd.fail("RateLimit-Limit: want %d", d.Limit)
	}
	rd.policyNumbers(list[1:])
	rd.number("RateLimit-Remaining", d.Remaining)
	rd.number("RateLimit-Reset", reset)
}

func (rd *reader) x(epoch, github bool) {
	rd.t.Helper()
	d := rd.s.decisions[rd.tightest]
	rd.number("X-RateLimit-Limit", d.Limit)
	rd.number("X-RateLimit-Remaining", d.Remaining)
	reset := max(roundedUp(d.ResetAfter), rd.retry)
	if epoch {
		at := int64(rd.s.now) + int64(max(d.ResetAfter, time.Duration(max(0, rd.retry))*time.Second)/time.Microsecond)
		if reset = at / 1e6; at%1e6 > 0 {
			reset++
		}
	}
	rd.number("X-RateLimit-Reset", reset)
	if github {
		rd.number("X-RateLimit-Used", d.Limit-d.Remaining)
		rd.value("X-RateLimit-Resource")
	}
}

// denial checks the fields that only denials have.
func (rd *reader) denial() {
	rd.t.Helper()
	if all := root.Combine(rd.s.decisions); all.Allowed != (rd.h.Get("Cache-Control") == "") {
		rd.fail("Cache-Control is %q", rd.h.Get("Cache-Control"))
	}
	if rd.h.Get("Cache-Control") != "" {
		rd.read++
	}
	if rd.retry < 0 {
		if rd.h.Get("Retry-After") != "" {
			rd.fail("Retry-After where no wait helps, or none is needed")
		}
		return
	}
	if got := rd.value("Retry-After"); got != strconv.FormatInt(rd.retry, 10) || rd.retry < 1 {
		rd.fail("Retry-After is %s, want %d", got, rd.retry)
	}
}

// randomDialects are the combinations of dialects for random states.
var randomDialects = [][]httpfields.Dialect{
	nil,
	{httpfields.IETF, httpfields.XRateLimit},
	{httpfields.IETF, httpfields.Draft03, httpfields.GitHub},
	{httpfields.Draft07, httpfields.Draft06},
	{httpfields.Draft07, httpfields.Draft03, httpfields.XRateLimitEpoch},
	{httpfields.Off},
}

// readAll checks every field of a header in the given dialects, and that there are no
// others.
func (rd *reader) readAll(dialects []httpfields.Dialect, allLimits bool) {
	rd.t.Helper()
	t := rd.s.window(rd.t, rd.tightest)
	late := int64(0)
	if rd.s.mayBeLate(rd.t, rd.tightest) {
		late = 1
	}
	has := func(d httpfields.Dialect) bool { return slices.Contains(dialects, d) }
	if dialects == nil || has(httpfields.IETF) {
		got := rd.ietf(allLimits)
		if got != t && got != t+late {
			rd.fail("t is %d, want %d", got, t)
		}
	}
	if has(httpfields.Draft07) {
		rd.draft07(rd.wait(t, late, strings.Contains(rd.h.Get("RateLimit"), "reset="+strconv.FormatInt(t+late, 10))))
	}
	if has(httpfields.Draft07) || has(httpfields.Draft06) {
		if rd.h.Get("RateLimit-Policy") != "" {
			rd.policyNumbers(rd.list("RateLimit-Policy"))
		}
	}
	if has(httpfields.Draft06) || has(httpfields.Draft03) {
		rd.draftFields(rd.wait(t, late, rd.h.Get("RateLimit-Reset") == strconv.FormatInt(t+late, 10)), has(httpfields.Draft03))
	}
	if has(httpfields.XRateLimit) || has(httpfields.XRateLimitEpoch) || has(httpfields.GitHub) {
		rd.x(!has(httpfields.XRateLimit), has(httpfields.GitHub))
	}
	rd.denial()
	if rd.read != len(rd.h) {
		rd.fail("%d fields were read of %d", rd.read, len(rd.h))
	}
}

// T38. For every policy and state, an independent parser of structured fields and
// net/http parse every field, and the values match the decisions. With -fields 1000000
// the test checks a million responses.
func TestRandomStatesParse(t *testing.T) {
	t.Parallel()
	type testWriter struct {
		*httpfields.Writer
		dialects  []httpfields.Dialect
		allLimits bool
	}
	var writers []testWriter
	for _, dialects := range randomDialects {
		writers = append(writers, testWriter{newWriter(t, withDialects(dialects...)), dialects, false})
		if dialects == nil || dialects[0] == httpfields.IETF {
			writers = append(writers, testWriter{newWriter(t, &httpfields.Options{Dialects: dialects, AllLimits: true}), dialects, true})
		}
	}
	eachState(t, caseCount(*fieldsFlag), func(r *rand.Rand, s *state) {
		v := writers[r.IntN(len(writers))]
		h := write(v.Writer, v.Set(s.limits...), s.decisions, s.now)
		mustPass(t, h)
		newReader(t, h, s).readAll(v.dialects, v.allLimits)
	})
}
