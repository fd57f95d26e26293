package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// stateCount returns the number of random states on which each rule is tested:
// Options.Decisions / 25, but at least 12 and at most 60.
func (ts *tester) stateCount() int { return min(60, max(12, ts.options.Decisions/25)) }

func ruleChecks() []check {
	return []check{
		{name: "denial", rule: "a denied request changes nothing that can be observed", perAlgorithm: checkDenial},
		{name: "peek", rule: "a peek changes nothing and returns what a take would decide; cost 0 is a peek and is always allowed", perAlgorithm: checkPeek},
		{name: "recovered key", rule: "after its reset_after a key equals an unused key", perAlgorithm: checkRecoveredKey},
		{name: "clock backwards", rule: "a clock that goes backwards never admits more than a constant clock", perAlgorithm: checkClockBackwards},
		{name: "costs add up", rule: "a cost of n equals n costs of 1", perAlgorithm: checkCosts},
		{name: "refund", rule: "a refund returns at most the units that were spent", perAlgorithm: checkRefund},
		{name: "denial under a changed limit", rule: "a denied request under a changed limit changes nothing that can be observed, under any limit", perAlgorithm: checkDenialUnderChangedLimit},
		{name: "changed limit", rule: "a changed limit keeps the units that were spent", perAlgorithm: checkChangedLimit},
		{name: "reset", rule: "a reset makes the key unused", perAlgorithm: checkReset},
	}
}

// usedKey is a random limit, a limiter with that limit, and the takes that a key has
// had. The last take was at the instant at.
type usedKey struct {
	limiter *headgate.Limiter
	limit   headgate.Limit
	at      headgate.Instant
	takes   []pastTake
}

type pastTake struct {
	at   headgate.Instant
	cost int64
}

// randomState takes random numbers of units of key at random instants, under a random
// limit of the algorithm a. It returns the takes.
func (ts *tester) randomState(a headgate.Algorithm, key string) usedKey {
	limit := randomLimit(ts.random, a)
	u := usedKey{limit: limit, at: start, limiter: ts.limiterFor(headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{limit}})}
	for range 1 + ts.random.IntN(6) {
		u.at += headgate.Instant(ts.random.Int64N(periodOf(limit)))
		s := pastTake{u.at, 1 + ts.random.Int64N(maxCost(a, limit))}
		u.takes = append(u.takes, s)
		ts.take(u.limiter, s.at, key, s.cost)
	}
	return u
}

// repeatOn repeats the takes of u on a different key.
func (ts *tester) repeatOn(u usedKey, key string) {
	for _, s := range u.takes {
		ts.take(u.limiter, s.at, key, s.cost)
	}
}

// maxCost returns the maximum cost of a request under the algorithm a and the limit l.
func maxCost(a headgate.Algorithm, l headgate.Limit) int64 {
	if a.Windowed() {
		return l.Rate
	}
	return l.Capacity()
}

func checkDenial(ts *tester, a headgate.Algorithm) {
	l := ts.limiter(a, "10/1m")
	ts.mustAllow(l, start, "key", 8)
	ts.mustDeny(l, start, "key", 5)
	ts.mustAllow(l, start, "key", 2)
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		before := ts.observe(u.limiter, u.at, "key")
		for _, cost := range []int64{before[0].Remaining + 1, maxCost(a, u.limit), maxCost(a, u.limit) + 1, math.MaxInt64} {
			if cost > before[0].Remaining {
				ts.mustDeny(u.limiter, u.at, "key", cost)
			}
		}
		ts.mustEqual(ts.observe(u.limiter, u.at, "key"), before, u.limiter, "after denials")
	})
}

func checkPeek(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		before := ts.observe(u.limiter, u.at, "key")
		for _, later := range []int64{0, 1, before[0].ResetAfter.Microseconds(), periodOf(u.limit)} {
			for _, cost := range []int64{0, 1, maxCost(a, u.limit), math.MaxInt64} {
				ts.peek(u.limiter, u.at+headgate.Instant(later), "key", cost)
			}
		}
		if d := ts.take(u.limiter, u.at, "key", 0); !d.Allowed || d.RetryAfter != 0 || d.Never {
			ts.failf("%s: take 0 of a key in use: got %s want allowed", describe(u.limiter), formatDecision(d))
		}
		ts.mustEqual(ts.observe(u.limiter, u.at, "key"), before, u.limiter, "after peeks, also at later instants, and costs of 0")
		cost := 1 + ts.random.Int64N(maxCost(a, u.limit)+1)
		peeked, taken := ts.peek(u.limiter, u.at, "key", cost), ts.take(u.limiter, u.at, "key", cost)
		if peeked.Allowed != taken.Allowed || peeked.Delay != taken.Delay || peeked.RetryAfter != taken.RetryAfter {
			ts.failf("%s: cost %d: peek returns %s, take returns %s", describe(u.limiter), cost, formatDecision(peeked), formatDecision(taken))
		}
	})
}

func checkRecoveredKey(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		reset := headgate.Instant(ts.peek(u.limiter, u.at, "key", 0).ResetAfter.Microseconds())
		if reset == 0 {
			return
		}
		if d := ts.peek(u.limiter, u.at+reset-1, "key", 0); d.ResetAfter != micros.Duration(1) {
			ts.failf("%s: 1 µs before the end of reset_after: got reset_after=%v want 1µs", describe(u.limiter), d.ResetAfter)
		}
		unused := ts.observe(u.limiter, u.at+reset, "unused")
		ts.mustEqual(ts.observe(u.limiter, u.at+reset, "key"), unused, u.limiter, "after reset_after, compared with an unused key")
		ts.take(u.limiter, u.at+reset, "key", 1)
		ts.take(u.limiter, u.at+reset, "unused", 1)
		ts.mustEqual(ts.observe(u.limiter, u.at+reset, "key"), ts.observe(u.limiter, u.at+reset, "unused"), u.limiter,
			"after another take, compared with the first take of an unused key")
	})
}

func checkClockBackwards(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		still := ts.peek(u.limiter, u.at, "key", 0)
		for _, back := range []int64{1, 1_000, periodOf(u.limit), 3_600_000_000} {
			then := u.at - headgate.Instant(back)
			if d := ts.peek(u.limiter, then, "key", 0); d.Remaining > still.Remaining {
				ts.failf("%s: clock %d µs back: got %d remaining; without going back %d", describe(u.limiter), back, d.Remaining, still.Remaining)
			}
			if d := ts.take(u.limiter, then, "key", still.Remaining+1); d.Allowed {
				ts.failf("%s: clock %d µs back: cost %d is admitted, but not without going back: %s", describe(u.limiter), back, still.Remaining+1, formatDecision(d))
			}
		}
		ts.checkTakeBackwards(u, "key")
	})
}

// checkTakeBackwards takes one unit, turns the clock back by up to a period and takes a
// second unit. A second key gets both takes without a change of the clock. The first
// key must not have more units left than the second key.
func (ts *tester) checkTakeBackwards(u usedKey, key string) {
	ts.repeatOn(u, "still")
	then := u.at - headgate.Instant(1+ts.random.Int64N(periodOf(u.limit)))
	if !ts.take(u.limiter, u.at, key, 1).Allowed || !ts.take(u.limiter, then, key, 1).Allowed {
		return
	}
	ts.mustAllow(u.limiter, u.at, "still", 1)
	ts.mustAllow(u.limiter, u.at, "still", 1)
	for _, later := range []int64{0, 1, periodOf(u.limit) / 2, periodOf(u.limit)} {
		at := u.at + headgate.Instant(later)
		back, still := ts.peek(u.limiter, at, key, 0).Remaining, ts.peek(u.limiter, at, "still", 0).Remaining
		if back > still {
			ts.failf("%s: a unit spent with the clock %d µs back: got %d remaining %d µs later; without going back %d", describe(u.limiter), u.at-then, back, later, still)
		}
	}
}

func checkCosts(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "one request")
		ts.repeatOn(u, "n requests")
		n := min(1+ts.random.Int64N(20), ts.peek(u.limiter, u.at, "one request", 0).Remaining)
		ts.mustAllow(u.limiter, u.at, "one request", n)
		for range n {
			ts.mustAllow(u.limiter, u.at, "n requests", 1)
		}
		ts.mustEqual(ts.observe(u.limiter, u.at, "n requests"), ts.observe(u.limiter, u.at, "one request"), u.limiter, "n costs of 1, compared with one cost of n")
	})
}

func checkRefund(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		before := ts.observe(u.limiter, u.at, "key")
		if left := before[0].Remaining; left > 0 {
			n := 1 + ts.random.Int64N(left)
			ts.mustAllow(u.limiter, u.at, "key", n)
			ts.refund(u.limiter, u.at, "key", n)
			ts.mustEqual(ts.observe(u.limiter, u.at, "key"), before, u.limiter, "after a take and its refund")
		}
		ts.refund(u.limiter, u.at, "key", 0)
		ts.mustEqual(ts.observe(u.limiter, u.at, "key"), before, u.limiter, "after a refund of 0")
		for _, n := range []int64{maxCost(a, u.limit) * 2, math.MaxInt64} {
			d := ts.refund(u.limiter, u.at, "key", n)
			if !d.Allowed || d.Remaining != d.Limit || d.ResetAfter != 0 || d.RetryAfter != 0 {
				ts.failf("%s: refund %d, more than was spent: got %s want the decision of a peek at an unused key", describe(u.limiter), n, formatDecision(d))
			}
		}
		ts.mustEqual(ts.observe(u.limiter, u.at, "key"), ts.observe(u.limiter, u.at, "unused"), u.limiter, "after a refund of more than was spent")
	})
	ts.checkRefundOfExpired(a)
}

// checkRefundOfExpired refunds units that no longer count. The refund must have no
// effect.
func (ts *tester) checkRefundOfExpired(a headgate.Algorithm) {
	l := ts.limiter(a, "4/1m")
	ts.mustAllow(l, start, "key", 4)
	later := start + 3*60_000_000
	ts.refund(l, later, "key", 4)
	ts.mustRemain(l, later, "key", 4, "after a refund of units that no longer count")
	ts.mustAllow(l, later, "key", 4)
	ts.mustDeny(l, later, "key", 1)
}

// limitChange is a test case for a key whose limit changes: spent is the number of
// units spent under the limit 10/1m, to is the new limit, and left is the number of
// units that must be left under it.
type limitChange struct {
	spent int64
	to    string
	left  int64
}

func checkChangedLimit(ts *tester, a headgate.Algorithm) {
	for _, c := range limitChanges(a) {
		p := headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit("10/1m")}}
		at := start + 10_000_000
		ts.mustAllow(ts.limiterFor(p), at, "key", c.spent)
		p.Limits = []headgate.Limit{headgate.MustParseLimit(c.to)}
		changed := ts.limiterFor(p)
		ts.mustRemain(changed, at, "key", c.left, fmt.Sprintf("%d of 10/1m were spent, then the limit changed", c.spent))
		ts.mustDeny(changed, at, "key", c.left+1)
		ts.mustRemain(changed, at, "key", c.left, "after a denial under the changed limit")
		if c.left > 0 {
			ts.mustAllow(changed, at, "key", c.left)
		}
	}
}

// checkDenialUnderChangedLimit sends requests that spend nothing to a key under limits
// other than its own. Then the key must be as before under its own limit, and so must
// be its TTL.
func checkDenialUnderChangedLimit(ts *tester, a headgate.Algorithm) {
	for _, other := range []string{"100/1s", "1/1s", "1000/1h", "2/366d"} {
		for _, at := range []headgate.Instant{start, headgate.StoreClock} {
			ts.denyUnderChangedLimit(a, other, at)
		}
	}
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		before := ts.observe(u.limiter, u.at, "key")
		p := u.limiter.Policy()
		for range 3 {
			p.Limits = []headgate.Limit{randomLimit(ts.random, a)}
			ts.spendNothing(ts.limiterFor(p), u.at, "key")
		}
		ts.mustEqual(ts.observe(u.limiter, u.at, "key"), before, u.limiter, "after denials under other limits")
	})
}

// denyUnderChangedLimit spends a key under 5/7d, sends requests that spend nothing under
// the limit other, and compares the key and its TTL with those before.
func (ts *tester) denyUnderChangedLimit(a headgate.Algorithm, other string, at headgate.Instant) {
	stored := ts.ttls()
	p := headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit("5/7d")}}
	l := ts.limiterFor(p)
	ts.mustAllow(l, at, "key", 5)
	p.Limits = []headgate.Limit{headgate.MustParseLimit(other)}
	changed, begin := ts.limiterFor(p), time.Now()
	ttls, before := ts.newKeys(stored), ts.peek(l, at, "key", 1)
	ts.spendNothing(changed, at, "key")
	after, passed := ts.peek(l, at, "key", 1), time.Since(begin)+2*time.Second // the clocks of a server are coarse
	if at == headgate.StoreClock && before.RetryAfter-after.RetryAfter <= passed && after.RetryAfter <= before.RetryAfter {
		after.RetryAfter, after.ResetAfter = before.RetryAfter, before.ResetAfter
	}
	ts.mustEqual(observation{after}, observation{before}, l, "after denials under "+other)
	for key, left := range ts.newKeys(stored) {
		if left+passed < ttls[key] {
			ts.failf("%s: after denials under %s: the TTL of %s is %v; before, it was %v", describe(l), other, truncate(key), left, ttls[key])
		}
	}
}

// spendNothing sends requests of all kinds that spend nothing.
func (ts *tester) spendNothing(l *headgate.Limiter, at headgate.Instant, key string) {
	a := l.Policy().Algorithm
	limit := maxCost(a, l.Policy().Limits[0])
	for _, cost := range []int64{1, limit, limit + 1} {
		allowed := ts.peek(l, at, key, cost).Allowed
		if !allowed {
			ts.take(l, at, key, cost)
		}
		if allowed && a == headgate.SlidingLog && ts.options.NonAtomic {
			continue // a take removes the entries that have expired; its refund does not restore them
		}
		if d := ts.takeAll(at, headgate.Check{Limiter: l, Key: key, Cost: cost}, headgate.Check{Limiter: l, Key: "other", Cost: math.MaxInt64 / 2}); d.Allowed {
			ts.failf("%s: a cost above the limit: got %s want denied", describe(l), formatDecision(d))
		}
	}
	ts.take(l, at, key, 0)
	ts.takeAll(at, headgate.Check{Limiter: l, Key: key}, headgate.Check{Limiter: l, Key: "other", Cost: 0})
	ts.refund(l, at, key, 0)
	if a.CanReserve() && !ts.peek(l, at, key, 1).Allowed {
		ts.reserve(l, at, 1, 0)
	}
}

// limitChanges returns test cases whose results were calculated by hand. In a
// continuous bucket under 10/1m, a unit refills in 6 s. The bucket keeps the instant at
// which it will be full. The other algorithms keep the number of spent units, except
// the interval bucket, which keeps the number of tokens.
func limitChanges(a headgate.Algorithm) []limitChange {
	switch a.Refill() {
	case headgate.RefillContinuous:
		return []limitChange{
			{4, "20/1m", 12},           // 24 s until full, at 3 s a unit: 8 of 20 are missing
			{4, "5/1m", 3},             // 24 s until full, at 12 s a unit: 2 of 5 are missing
			{10, "20/1m", 0},           // 60 s until full, at 3 s a unit: all are missing
			{10, "10/1m burst 20", 10}, // 60 s until full, at 6 s a unit: 10 of 20 are missing
			{10, "10/10s", 0},          // 60 s until full, at 1 s a unit: all are missing
			{1, "10/10s", 4},           // 6 s until full, at 1 s a unit: 6 of 10 are missing
		}
	case headgate.RefillStepped:
		return []limitChange{{4, "20/1m", 6}, {4, "5/1m", 5}, {4, "10/1m burst 20", 6}, {10, "20/1m", 0}, {10, "10/1s", 0}, {10, "10/1h", 0}}
	default:
		return []limitChange{{4, "20/1m", 16}, {4, "5/1m", 1}, {4, "3/1m", 0}, {10, "20/1m", 10}, {10, "10/1h", 0}, {10, "10/7m", 0}}
	}
}

func checkReset(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		if d := ts.reset(u.limiter, u.at, "key"); d.Remaining != d.Limit || d.ResetAfter != 0 || !d.Allowed {
			ts.failf("%s: reset: got %s want the decision of a peek at an unused key", describe(u.limiter), formatDecision(d))
		}
		ts.mustEqual(ts.observe(u.limiter, u.at, "key"), ts.observe(u.limiter, u.at, "unused"), u.limiter, "after a reset")
		ts.reset(u.limiter, u.at, "unused")
		ts.mustEqual(ts.observe(u.limiter, u.at, "unused"), ts.observe(u.limiter, u.at, "another unused key"), u.limiter, "after a reset of an unused key")
	})
}
