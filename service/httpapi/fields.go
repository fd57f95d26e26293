package httpapi

import (
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/service/engine"
)

// The header fields RateLimit-Policy and RateLimit follow draft-ietf-httpapi-ratelimit-headers-11: lists of items named by
// their policy. What does not change from answer to answer is serialised once for each rule.

// mostListed bounds the items of one RateLimit-Policy, beside the tightest, so that no answer has a header nobody accepts.
const mostListed = 32

// inlineName names a limit that has no policy. A second such limit in one request is “default-2”, and so on.
const inlineName = "default"

// item is the part of the header fields that stays the same.
type item struct {
	name   string   // the item itself, serialised: "login"
	policy string   // with its parameters: "login";q=5;w=900
	alone  []string // the whole RateLimit-Policy of a request under this rule only; not to be changed
}

// itemKey says which item: nth counts the limits without a policy in a request, from 1; it is 1 for all others.
type itemKey struct {
	rule *engine.Rule
	nth  int
}

func (h *Handler) item(r *engine.Rule, nth int) *item {
	k := itemKey{r, nth}
	if it, ok := h.items.Get(k); ok {
		return it
	}
	return h.items.Put(k, newItem(r, nth))
}

func newItem(r *engine.Rule, nth int) *item {
	name := safeName(r.Name)
	if r.Policy == "" {
		name = inlineName
		if nth > 1 {
			name += "-" + strconv.Itoa(nth)
		}
	}
	full := httpsfv.NewItem(name)
	quota, window := quotaWindow(r.Limit)
	full.Params.Add("q", quota)
	if window > 0 {
		full.Params.Add("w", window)
	}
	if b := r.AtOnce(); b != quota {
		full.Params.Add("headgate-burst", b)
	}
	it := &item{name: serialise(httpsfv.NewItem(name)), policy: serialise(full)}
	it.alone = []string{it.policy}
	return it
}

// serialise cannot fail: names are safe and numbers small.
func serialise(it httpsfv.Item) string {
	text, err := httpsfv.Marshal(it)
	if err != nil {
		panic("httpapi: unsafe structured field: " + err.Error())
	}
	return text
}

// safeName replaces what a string of a structured field cannot hold.
func safeName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
}

// quotaWindow is a limit in whole seconds: as it is, or for a whole part of a second the quota of one second. For other
// periods the window is 0: it cannot be told.
func quotaWindow(l headgate.Limit) (quota, window int64) {
	switch {
	case l.Period%time.Second == 0:
		return l.Rate, int64(l.Period / time.Second)
	case time.Second%l.Period == 0:
		return l.Rate * int64(time.Second/l.Period), 1
	default:
		return l.Rate, 0
	}
}

// setLimitFields writes RateLimit-Policy, for all limits of the answer, RateLimit for the tightest, and Retry-After for a
// denial that will end.
func (h *Handler) setLimitFields(header http.Header, a *engine.Answer, scratch []byte) {
	var tightest *item
	if len(a.Rules) == 1 {
		tightest = h.item(a.Rules[0], 1)
		header["Ratelimit-Policy"] = tightest.alone
	} else {
		tightest = h.listPolicies(header, a)
	}
	values := make([]string, 2)
	values[0] = string(appendRateLimit(scratch[:0], tightest, a))
	header["Ratelimit"] = values[:1:1]
	if a.Allowed {
		return
	}
	header["Cache-Control"] = noStore
	if !a.Never {
		values[1] = strconv.FormatInt(ceil(a.RetryAfter, time.Second), 10) // at least 1: a wait that helps is not 0
		header["Retry-After"] = values[1:]
	}
}

// listPolicies writes RateLimit-Policy for several limits, each once, and finds the item of the tightest.
func (h *Handler) listPolicies(header http.Header, a *engine.Answer) (tightest *item) {
	var list []string
	var listed []*engine.Rule
	nth, wanted := 1, a.Rules[a.Tightest]
	for _, r := range a.Rules {
		if len(listed) >= mostListed && r != wanted || slices.Contains(listed, r) {
			continue
		}
		it := h.item(r, nth)
		if r.Policy == "" {
			nth++
		}
		listed, list = append(listed, r), append(list, it.policy)
		if r == wanted {
			tightest = it
		}
	}
	header["Ratelimit-Policy"] = []string{strings.Join(list, ", ")}
	return tightest
}

func appendRateLimit(b []byte, it *item, a *engine.Answer) []byte {
	d := &a.Decisions[a.Tightest]
	b = append(b, it.name...)
	b = append(b, ";r="...)
	b = strconv.AppendInt(b, d.Remaining, 10)
	b = append(b, ";t="...)
	return strconv.AppendInt(b, effectiveWindow(a.Rules[a.Tightest], d), 10)
}

// effectiveWindow is the t of RateLimit, in seconds rounded up: within so long a client can use no more than the remaining r.
// For buckets r/t is the sustained rate or less.
func effectiveWindow(r *engine.Rule, d *headgate.Decision) int64 {
	switch r.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow, headgate.SlidingLog:
		if d.ResetAfter == 0 {
			return ceil(r.Limit.Period, time.Second)
		}
		return ceil(d.ResetAfter, time.Second)
	}
	switch {
	case d.Remaining > 0:
		hi, lo := bits.Mul64(uint64(d.Remaining), uint64(r.Limit.Period/time.Microsecond))
		lo, carry := bits.Add64(lo, uint64(r.Limit.Rate)*1e6-1, 0)
		seconds, _ := bits.Div64(hi+carry, lo, uint64(r.Limit.Rate)*1e6)
		return max(1, int64(seconds))
	case d.RetryAfter > 0:
		return ceil(d.RetryAfter, time.Second)
	default:
		return max(1, ceil(untilNextUnit(r, d), time.Second))
	}
}

// untilNextUnit is the wait until an empty bucket holds one unit: the time to fill less that of all other units.
func untilNextUnit(r *engine.Rule, d *headgate.Decision) time.Duration {
	l := r.Limit
	if r.Algorithm == headgate.TokenBucketInterval {
		refills := (l.Capacity() + l.Rate - 1) / l.Rate
		return d.ResetAfter - time.Duration(refills-1)*l.Period
	}
	hi, lo := bits.Mul64(uint64(l.Capacity()-1), uint64(l.Period/time.Microsecond))
	others, _ := bits.Div64(hi, lo, uint64(l.Rate))
	return d.ResetAfter - headgate.Micros(int64(others))
}
