package storetest

import (
	"fmt"
	"math"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// states is how many random states of a key each rule is tried on: 60, and fewer where few decisions are compared.
func (j *judge) states() int { return min(60, max(12, j.options.Decisions/25)) }

func ruleChecks() []check {
	return []check{
		{name: "rule1", rule: "rule 1: a denied request changes nothing that can be observed", each: denialChangesNothing},
		{name: "rule2", rule: "rule 2: a peek changes nothing and says what a take would; cost 0 is one, and always allowed", each: peekChangesNothing},
		{name: "rule3", rule: "rule 3: a key after its reset_after equals a key that does not exist", each: idleIsAbsent},
		{name: "rule4", rule: "rule 4: time going backwards never admits more than standing still would", each: backwardsAdmitsNoMore},
		{name: "rule5", rule: "rule 5: costs add up: n at once equals n times 1", each: costsAddUp},
		{name: "rule6", rule: "rule 6: a refund gives back at most what was spent", each: refundIsBounded},
		{name: "rule7", rule: "rule 7: a changed limit keeps what was spent", each: changeKeepsSpent},
		{name: "reset", rule: "a reset makes the key as if never used", each: resetForgets},
	}
}

// used is a limiter with a random limit and a key of it that was used at random, last at the instant at.
type used struct {
	limiter *headgate.Limiter
	limit   headgate.Limit
	at      headgate.Instant
	past    []spent
}

type spent struct {
	at   headgate.Instant
	cost int64
}

// someState spends at random on key.
func (j *judge) someState(a headgate.Algorithm, key string) used {
	limit := randomLimit(j.random, a)
	u := used{limit: limit, at: start, limiter: j.limiterFor(headgate.Policy{Name: j.name(), Algorithm: a, Limits: []headgate.Limit{limit}})}
	for range 1 + j.random.IntN(6) {
		u.at += headgate.Instant(j.random.Int64N(limit.Period.Microseconds()))
		s := spent{u.at, 1 + j.random.Int64N(mostOf(a, limit))}
		u.past = append(u.past, s)
		j.take(u.limiter, s.at, key, s.cost)
	}
	return u
}

// repeat spends on another key what was spent on the first.
func (j *judge) repeat(u used, key string) {
	for _, s := range u.past {
		j.take(u.limiter, s.at, key, s.cost)
	}
}

// mostOf is the most that a under l can ever spend at once.
func mostOf(a headgate.Algorithm, l headgate.Limit) int64 {
	if a.Windowed() {
		return l.Rate
	}
	return l.Capacity()
}

func denialChangesNothing(j *judge, a headgate.Algorithm) {
	eight := j.limiter(a, "10/1m")
	j.mustAllow(eight, start, "key", 8)
	j.mustDeny(eight, start, "key", 5)
	j.mustAllow(eight, start, "key", 2)
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		before := j.look(u.limiter, u.at, "key")
		for _, cost := range []int64{before[0].Remaining + 1, mostOf(a, u.limit), mostOf(a, u.limit) + 1, math.MaxInt64} {
			if cost > before[0].Remaining {
				j.mustDeny(u.limiter, u.at, "key", cost)
			}
		}
		j.mustLookAs(j.look(u.limiter, u.at, "key"), before, u.limiter, "after denials")
	})
}

func peekChangesNothing(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		before := j.look(u.limiter, u.at, "key")
		for _, later := range []int64{0, 1, before[0].ResetAfter.Microseconds(), u.limit.Period.Microseconds()} {
			for _, cost := range []int64{0, 1, mostOf(a, u.limit), math.MaxInt64} {
				j.peek(u.limiter, u.at+headgate.Instant(later), "key", cost)
			}
		}
		if d := j.take(u.limiter, u.at, "key", 0); !d.Allowed || d.RetryAfter != 0 || d.Never {
			j.failf("%s: take 0 of a key in use: got %s want allowed", describe(u.limiter), show(d))
		}
		j.mustLookAs(j.look(u.limiter, u.at, "key"), before, u.limiter, "after peeks, also at later instants, and costs of 0")
		cost := 1 + j.random.Int64N(mostOf(a, u.limit)+1)
		foretold, told := j.peek(u.limiter, u.at, "key", cost), j.take(u.limiter, u.at, "key", cost)
		if foretold.Allowed != told.Allowed || foretold.Delay != told.Delay || foretold.RetryAfter != told.RetryAfter {
			j.failf("%s: cost %d: peek says %s, take says %s", describe(u.limiter), cost, show(foretold), show(told))
		}
	})
}

func idleIsAbsent(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		reset := headgate.Instant(j.peek(u.limiter, u.at, "key", 0).ResetAfter.Microseconds())
		if reset == 0 {
			return
		}
		if d := j.peek(u.limiter, u.at+reset-1, "key", 0); d.ResetAfter != micros.Duration(1) {
			j.failf("%s: 1 µs before reset_after is over: got reset_after=%v want 1µs", describe(u.limiter), d.ResetAfter)
		}
		absent := j.look(u.limiter, u.at+reset, "never used")
		j.mustLookAs(j.look(u.limiter, u.at+reset, "key"), absent, u.limiter, "once reset_after is over, beside a key that was never used")
		j.take(u.limiter, u.at+reset, "key", 1)
		j.take(u.limiter, u.at+reset, "never used", 1)
		j.mustLookAs(j.look(u.limiter, u.at+reset, "key"), j.look(u.limiter, u.at+reset, "never used"), u.limiter,
			"used once more, beside a key that was used for the first time")
	})
}

func backwardsAdmitsNoMore(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		still := j.peek(u.limiter, u.at, "key", 0)
		for _, back := range []int64{1, 1_000, u.limit.Period.Microseconds(), 3_600_000_000} {
			then := u.at - headgate.Instant(back)
			if d := j.peek(u.limiter, then, "key", 0); d.Remaining > still.Remaining {
				j.failf("%s: %d µs back: got %d remaining, standing still %d", describe(u.limiter), back, d.Remaining, still.Remaining)
			}
			if d := j.take(u.limiter, then, "key", still.Remaining+1); d.Allowed {
				j.failf("%s: %d µs back: cost %d is admitted, standing still it is not: %s", describe(u.limiter), back, still.Remaining+1, show(d))
			}
		}
		j.spendBackwards(u, "key")
	})
}

// spendBackwards spends once, and once more with the clock a little back, and wants no more left than spending both without
// going back would leave.
func (j *judge) spendBackwards(u used, key string) {
	j.repeat(u, "still")
	then := u.at - headgate.Instant(1+j.random.Int64N(u.limit.Period.Microseconds()))
	if !j.take(u.limiter, u.at, key, 1).Allowed || !j.take(u.limiter, then, key, 1).Allowed {
		return
	}
	j.mustAllow(u.limiter, u.at, "still", 1)
	j.mustAllow(u.limiter, u.at, "still", 1)
	for _, later := range []int64{0, 1, u.limit.Period.Microseconds() / 2, u.limit.Period.Microseconds()} {
		at := u.at + headgate.Instant(later)
		back, still := j.peek(u.limiter, at, key, 0).Remaining, j.peek(u.limiter, at, "still", 0).Remaining
		if back > still {
			j.failf("%s: a unit spent %d µs back: got %d remaining %d µs later, spent without going back %d", describe(u.limiter), u.at-then, back, later, still)
		}
	}
}

func costsAddUp(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "at once")
		j.repeat(u, "one by one")
		n := min(1+j.random.Int64N(20), j.peek(u.limiter, u.at, "at once", 0).Remaining)
		j.mustAllow(u.limiter, u.at, "at once", n)
		for range n {
			j.mustAllow(u.limiter, u.at, "one by one", 1)
		}
		j.mustLookAs(j.look(u.limiter, u.at, "one by one"), j.look(u.limiter, u.at, "at once"), u.limiter, "n times 1, beside n at once")
	})
}

func refundIsBounded(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		before := j.look(u.limiter, u.at, "key")
		if left := before[0].Remaining; left > 0 {
			n := 1 + j.random.Int64N(left)
			j.mustAllow(u.limiter, u.at, "key", n)
			j.refund(u.limiter, u.at, "key", n)
			j.mustLookAs(j.look(u.limiter, u.at, "key"), before, u.limiter, "after spending and giving back the same")
		}
		j.refund(u.limiter, u.at, "key", 0)
		j.mustLookAs(j.look(u.limiter, u.at, "key"), before, u.limiter, "after giving back 0")
		for _, n := range []int64{mostOf(a, u.limit) * 2, math.MaxInt64} {
			d := j.refund(u.limiter, u.at, "key", n)
			if !d.Allowed || d.Remaining != d.Limit || d.ResetAfter != 0 || d.RetryAfter != 0 {
				j.failf("%s: refund %d, more than was spent: got %s want the answer to a peek at a key never used", describe(u.limiter), n, show(d))
			}
		}
		j.mustLookAs(j.look(u.limiter, u.at, "key"), j.look(u.limiter, u.at, "never used"), u.limiter, "after giving back more than was spent")
	})
	j.refundAfterRoll(a)
}

// refundAfterRoll gives back what no longer counts: nothing comes of it.
func (j *judge) refundAfterRoll(a headgate.Algorithm) {
	l := j.limiter(a, "4/1m")
	j.mustAllow(l, start, "key", 4)
	long := start + 3*60_000_000
	j.refund(l, long, "key", 4)
	j.mustHold(l, long, "key", 4, "after a refund of units that no longer count")
	j.mustAllow(l, long, "key", 4)
	j.mustDeny(l, long, "key", 1)
}

// change is a key under one limit that goes on under another: 10/1m with so many spent, then the other with so many left.
type change struct {
	spent int64
	to    string
	left  int64
}

func changeKeepsSpent(j *judge, a headgate.Algorithm) {
	for _, c := range changes(a) {
		p := headgate.Policy{Name: j.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit("10/1m")}}
		at := start + 10_000_000
		j.mustAllow(j.limiterFor(p), at, "key", c.spent)
		p.Limits = []headgate.Limit{headgate.MustParseLimit(c.to)}
		changed := j.limiterFor(p)
		j.mustHold(changed, at, "key", c.left, fmt.Sprintf("%d of 10/1m were spent, then the limit changed", c.spent))
		j.mustDeny(changed, at, "key", c.left+1)
		j.mustHold(changed, at, "key", c.left, "after a denial under the changed limit")
		if c.left > 0 {
			j.mustAllow(changed, at, "key", c.left)
		}
	}
}

// changes are worked by hand. Under 10/1m a unit of a continuous bucket is 6 s: it keeps the instant at which it is full
// again, at most the new limit's B·T away. The others keep their counts, the interval bucket its tokens.
func changes(a headgate.Algorithm) []change {
	switch a.Refill() {
	case headgate.RefillContinuous:
		return []change{
			{4, "20/1m", 12},           // 24 s at 3 s
			{4, "5/1m", 3},             // 24 s at 12 s
			{10, "20/1m", 0},           // 60 s at 3 s
			{10, "10/1m burst 20", 10}, // 60 s at 6 s
			{10, "10/10s", 0},          // 60 s, kept to 10 s
			{1, "10/10s", 4},           // 6 s at 1 s
		}
	case headgate.RefillStepped:
		return []change{{4, "20/1m", 6}, {4, "5/1m", 5}, {4, "10/1m burst 20", 6}, {10, "20/1m", 0}, {10, "10/1s", 0}, {10, "10/1h", 0}}
	default:
		return []change{{4, "20/1m", 16}, {4, "5/1m", 1}, {4, "3/1m", 0}, {10, "20/1m", 10}, {10, "10/1h", 0}, {10, "10/7m", 0}}
	}
}

func resetForgets(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		if d := j.reset(u.limiter, u.at, "key"); d.Remaining != d.Limit || d.ResetAfter != 0 || !d.Allowed {
			j.failf("%s: reset: got %s want the answer to a peek at a key never used", describe(u.limiter), show(d))
		}
		j.mustLookAs(j.look(u.limiter, u.at, "key"), j.look(u.limiter, u.at, "never used"), u.limiter, "after a reset")
		j.reset(u.limiter, u.at, "never used")
		j.mustLookAs(j.look(u.limiter, u.at, "never used"), j.look(u.limiter, u.at, "never used either"), u.limiter, "after a reset of a key never used")
	})
}
