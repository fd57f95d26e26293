package storetest

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

func multiChecks() []check {
	return []check{
		{name: "all or nothing", rule: "several limits: all of them allow or nothing is spent", perAlgorithm: checkAllOrNothing},
		{name: "same key twice", rule: "several limits: a key that occurs twice is spent from twice", perAlgorithm: checkSameKeyTwice},
		{name: "combined decision", rule: "several limits: a denial has the longest wait of the limits that denied and lists each of them", once: checkMultiDecision},
		{name: "concurrent requests", rule: "several limits: concurrent requests spend from all keys or from none", perAlgorithm: checkMultiConcurrent},
		{name: "policy with several limits", rule: "a policy with several limits is spent from, refunded and reset as a unit", perAlgorithm: checkMultiLimitPolicy},
	}
}

func checkAllOrNothing(ts *tester, a headgate.Algorithm) {
	wide, narrow := ts.limiter(a, "10/1m"), ts.limiter(a, "3/1m")
	ts.mustAllow(wide, start, "key", 1)
	ts.mustAllow(narrow, start, "key", 2)
	before := ts.observe(wide, start, "key")
	for _, checks := range [][]headgate.Check{
		{{Limiter: wide, Key: "key", Cost: 2}, {Limiter: narrow, Key: "key", Cost: 2}},
		{{Limiter: narrow, Key: "key", Cost: 2}, {Limiter: wide, Key: "key", Cost: 2}},
		{{Limiter: wide, Key: "key", Cost: 2}, {Limiter: narrow, Key: "key", Cost: 4}},
	} {
		if d := ts.takeAll(start, checks...); d.Allowed {
			ts.failf("%s and %s with 1 left: got %s want denied", describe(wide), describe(narrow), formatDecision(d))
		}
		ts.mustEqual(ts.observe(wide, start, "key"), before, wide, "the limit that allowed, after the other denied")
		ts.mustRemain(narrow, start, "key", 1, "the limit that denied")
	}
	fits := []headgate.Check{{Limiter: wide, Key: "key", Cost: 2}, {Limiter: narrow, Key: "key", Cost: 1}}
	if d := ts.peekAll(start, fits...); !d.Allowed {
		ts.failf("peek at requests that fit: got %s want allowed", formatDecision(d))
	}
	ts.mustEqual(ts.observe(wide, start, "key"), before, wide, "after a peek with several limits")
	if d := ts.takeAll(start, fits...); !d.Allowed {
		ts.failf("requests that fit: got %s want allowed", formatDecision(d))
	}
	ts.mustRemain(wide, start, "key", 7, "after both allowed")
	ts.mustRemain(narrow, start, "key", 0, "after both allowed")
}

func checkSameKeyTwice(ts *tester, a headgate.Algorithm) {
	l := ts.limiter(a, "10/1m")
	twice := func(first, second int64) []headgate.Check {
		return []headgate.Check{{Limiter: l, Key: "key", Cost: first}, {Limiter: l, Key: "other", Cost: 1}, {Limiter: l, Key: "key", Cost: second}}
	}
	if d := ts.takeAll(start, twice(3, 4)...); !d.Allowed || d.Remaining != 3 {
		ts.failf("%s: one key with costs 3 and 4: got %s want allowed with 3 remaining", describe(l), formatDecision(d))
	}
	ts.mustRemain(l, start, "key", 3, "after costs 3 and 4 in one request")
	d := ts.takeAll(start, twice(2, 2)...)
	if d.Allowed || d.RetryAfter == 0 {
		ts.failf("%s with 3 left, costs 2 and 2: got %s want denied with a wait", describe(l), formatDecision(d))
	}
	ts.mustRemain(l, start, "key", 3, "after a denial")
	ts.mustRemain(l, start, "other", 9, "after a denial")
	ts.mustHaveExactRetryAfter(start, d, twice(2, 2))
	ts.mustHaveExactRetryAfter(start, ts.peekAll(start, twice(4, 5)...), twice(4, 5))
	if d := ts.takeAll(start, twice(6, 5)...); d.Allowed || !d.Never || d.RetryAfter != 0 {
		ts.failf("%s: one key with costs 6 and 5: got %s want never: the limit is 10", describe(l), formatDecision(d))
	}
}

// mustHaveExactRetryAfter requires that the denied request would be allowed after the
// wait in d, but not 1 µs earlier. It peeks at the later instant first, in order to
// detect a store in which such a peek changes the state.
func (ts *tester) mustHaveExactRetryAfter(at headgate.Instant, d headgate.Decision, checks []headgate.Check) {
	then := at + headgate.Instant(d.RetryAfter.Microseconds())
	if d.Allowed || d.Never || then > headgate.MaxInstant {
		return
	}
	if later := ts.peekAll(then, checks...); !later.Allowed {
		ts.failf("retry_after=%d µs: peek at that time: got %s want allowed", d.RetryAfter.Microseconds(), formatDecision(later))
	}
	if sooner := ts.peekAll(then-1, checks...); sooner.Allowed {
		ts.failf("retry_after=%d µs: peek 1 µs earlier: got %s want denied", d.RetryAfter.Microseconds(), formatDecision(sooner))
	}
}

func checkMultiDecision(ts *tester) {
	for _, a := range ts.options.algorithms() {
		p := headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{
			headgate.MustParseLimit("2/10s"), headgate.MustParseLimit("2/1m"), headgate.MustParseLimit("50/1m"),
		}}
		l := ts.limiterFor(p)
		ts.mustAllow(l, start, "key", 2)
		d := ts.take(l, start, "key", 1)
		want := []string{p.Name + ":2/10s", p.Name + ":2/m"}
		if d.Allowed || d.Remaining != 0 || d.Limit != 2 || !slices.Equal(d.DeniedBy, want) {
			ts.failf("%s: got %s want denied by %q, limit 2, remaining 0", describe(l), formatDecision(d), want)
		}
		ts.mustHaveExactRetryAfter(start, d, []headgate.Check{{Limiter: l, Key: "key", Cost: 1}})
		if d := ts.take(l, start, "key", 3); !d.Never || d.RetryAfter != 0 {
			ts.failf("%s: cost 3: got %s want never", describe(l), formatDecision(d))
		}
	}
}

// checkMultiConcurrent takes units of two keys in each request, from 16 goroutines.
// Half of the goroutines list the two keys in reverse order, to detect deadlocks in a
// store that locks one key after the other. The check is repeated: first the keys have
// different numbers of units left, then equal numbers.
func checkMultiConcurrent(ts *tester, a headgate.Algorithm) {
	const limit, narrow = 100, 70
	for _, wide := range []int64{limit, narrow} {
		l := ts.limiter(a, "100/1m")
		ts.take(l, start, "left", limit-wide)
		ts.mustAllow(l, start, "right", limit-narrow)
		got := ts.takeConcurrently([]headgate.Check{{Limiter: l, Key: "left", Cost: 1}, {Limiter: l, Key: "right", Cost: 1}})
		if got > narrow || got < narrow && !ts.options.NonAtomic {
			ts.failf("%s, concurrent requests for two keys with %d and %d left: got %d admitted want %d", describe(l), wide, narrow, got, narrow)
		}
		for key, before := range map[string]int64{"left": wide, "right": narrow} {
			left := ts.peek(l, start, key, 0).Remaining
			if want := before - got; left > want || left < want && !ts.options.NonAtomic {
				ts.failf("%s: %d requests were admitted with %d units left: got %d remaining want %d", describe(l), got, before, left, want)
			}
		}
	}
}

// takeConcurrently sends 320 requests from 16 goroutines, far more than the limit
// allows, and returns how many were allowed.
func (ts *tester) takeConcurrently(checks []headgate.Check) int64 {
	const callers, rounds = 16, 20
	reversed := []headgate.Check{checks[1], checks[0]}
	var admitted atomic.Int64
	var errs firstError
	var all sync.WaitGroup
	for g := range callers {
		mine := checks
		if g%2 == 1 {
			mine = reversed
		}
		all.Go(func() {
			for range rounds {
				d, err := headgate.AllowAllAt(background, start.Time(), mine...)
				errs.record(err)
				if d.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	ts.mustf(errs.err, "take from two keys")
	return admitted.Load()
}

func checkMultiLimitPolicy(ts *tester, a headgate.Algorithm) {
	p := headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit("3/10s"), headgate.MustParseLimit("5/1m")}}
	l := ts.limiterFor(p)
	ts.mustAllow(l, start, "key", 3)
	ts.mustDeny(l, start, "key", 1)
	ts.mustRemain(l, start, "key", 0, "the narrower limit is exhausted")
	if d := ts.refund(l, start, "key", 2); d.Remaining != 2 || d.Limit != 3 {
		ts.failf("%s: refund 2 of 3: got %s want 2 remaining of 3", describe(l), formatDecision(d))
	}
	ts.mustAllow(l, start, "key", 2)
	if d := ts.reset(l, start, "key"); d.Remaining != 3 || d.ResetAfter != 0 {
		ts.failf("%s: reset: got %s want 3 remaining", describe(l), formatDecision(d))
	}
	ts.mustAllow(l, start, "key", 3)
	if d := ts.peek(l, start+20_000_000, "key", 0); d.Remaining > 3 {
		ts.failf("%s: 20 s later: got %s want at most 3 remaining", describe(l), formatDecision(d))
	}
}
