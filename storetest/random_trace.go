package storetest

import (
	"fmt"
	"math"
	"sync"

	"github.com/headgate/headgate"
)

// maxTraceSteps is the maximum number of steps in a random trace.
const maxTraceSteps = 60

func modelChecks() []check {
	return []check{
		{name: "decisions equal model", rule: "decisions equal those of the model in rational numbers, and retry_after is exact", perAlgorithm: checkModel},
		{name: "never", rule: "a cost above the limit is denied with never; a cost equal to the limit is allowed for an unused key", perAlgorithm: checkNever},
	}
}

// checkModel plays random traces until it has compared the algorithm's share of
// Options.Decisions with the model. Each goroutine compares the same number of
// decisions.
func checkModel(ts *tester, a headgate.Algorithm) {
	share := (ts.options.Decisions/len(ts.options.algorithms()))/ts.options.Parallelism + 1
	var all tally
	var mu sync.Mutex
	ts.parallel(ts.options.Parallelism, func(ts *tester) {
		sum := ts.compareTraces(a, share)
		mu.Lock()
		defer mu.Unlock()
		all.add(sum)
	})
	ts.summary = fmt.Sprintf("%d traces, %d decisions, 0 differ; %d were denials, %d of them checked again at retry_after and 1 µs earlier",
		all.traces, all.compared, all.denied, all.rechecked)
}

// compareTraces plays random traces until the number of compared decisions is share.
func (ts *tester) compareTraces(a headgate.Algorithm, share int) (sum tally) {
	for ; sum.compared < share; sum.traces++ {
		t, difference := ts.randomTrace(a, &sum)
		if difference == nil {
			continue
		}
		if short, again := ts.shrink(t); again != nil {
			t, difference = short, again
		}
		ts.failf("trace %d, after %d equal decisions:\n%v%w", sum.traces, sum.compared, t, difference)
	}
	return sum
}

// tally counts the traces that were played and the decisions that were compared.
type tally struct{ traces, compared, denied, rechecked int }

func (t *tally) add(other tally) {
	t.traces += other.traces
	t.compared += other.compared
	t.denied += other.denied
	t.rechecked += other.rechecked
}

// randomTrace generates a trace and plays it at the same time, because the next step
// depends on the last decision. It adds the counts to sum.
func (ts *tester) randomTrace(a headgate.Algorithm, sum *tally) (t trace, difference error) {
	t.rules = []rule{{a, randomLimit(ts.random, a)}}
	for ts.random.IntN(4) == 0 && len(t.rules) < 3 {
		other := ts.options.algorithms()[ts.random.IntN(len(ts.options.algorithms()))]
		t.rules = append(t.rules, rule{other, randomLimit(ts.random, other)})
	}
	g := &generator{tester: ts, player: ts.player(t.rules), at: ts.firstInstant(), changes: []int{3, 3, 25}[ts.random.IntN(3)]}
	g.player.tally = sum
	for range 1 + ts.random.IntN(maxTraceSteps) {
		s := g.next()
		t.steps = append(t.steps, s)
		answer, difference := g.player.play(s)
		if difference != nil {
			return t, difference
		}
		if s.verb != changeLimit {
			g.answer = answer
		}
	}
	return t, nil
}

func (ts *tester) firstInstant() headgate.Instant {
	switch ts.random.IntN(5) {
	case 0:
		return headgate.Instant(ts.random.Int64N(2_000_000))
	case 1:
		return headgate.Instant(ts.random.Int64N(int64(headgate.MaxInstant)))
	case 2:
		return headgate.MaxInstant - headgate.Instant(ts.random.Int64N(100_000_000))
	default:
		return start + headgate.Instant(ts.random.Int64N(86_400_000_000))
	}
}

// generator generates the steps of a random trace, each from the last decision.
type generator struct {
	tester  *tester
	player  *player
	at      headgate.Instant
	answer  headgate.Decision // the decision on the last step
	changes int               // percentage of steps that change a limit

	earlier map[int]headgate.Limit // the previous limit of each rule that has changed
}

func (g *generator) next() step {
	g.at = g.nextInstant()
	r := g.tester.random
	s := step{at: g.at, debits: []debit{g.debit(0)}}
	switch n := r.IntN(100); {
	case n < g.changes:
		s.verb, s.limit = changeLimit, g.changedLimit(s.debits[0].rule)
	case n < g.changes+3:
		s.verb = reset
	case n < g.changes+12:
		s.verb = refund
	case n < g.changes+22:
		s.verb = peek
	case n < g.changes+37:
		s.verb = takeAll
	case n < g.changes+42:
		s.verb = peekAll
	}
	if s.verb == takeAll || s.verb == peekAll {
		for i := 1; i < 2+r.IntN(3); i++ {
			s.debits = append(s.debits, g.debit(i))
		}
	}
	return s
}

// debit returns debit number i of a step: a random rule, a key (most often the first)
// and a cost. The costs of several debits in one request must not exceed an int64 in
// sum.
func (g *generator) debit(i int) debit {
	r := g.tester.random
	c := debit{rule: r.IntN(len(g.player.rules))}
	if r.IntN(4) == 0 {
		c.key = 1
	}
	limit := maxCost(g.player.rules[c.rule].algorithm, g.player.rules[c.rule].limit)
	switch r.IntN(16) {
	case 0:
		c.cost = 0
	case 1:
		c.cost = limit
	case 2:
		c.cost = []int64{limit + 1, math.MaxInt64 / int64(i+1)}[r.IntN(2)]
	case 3, 4:
		c.cost = min(g.answer.Remaining+1, limit)
	case 5:
		c.cost = min(g.answer.Remaining, limit)
	case 6, 7, 8:
		c.cost = 1 + r.Int64N(limit)/int64(i+1)
	case 9, 10:
		c.cost = logUniform(r, limit)
	default:
		c.cost = 1
	}
	return c
}

// changedLimit returns a new limit for rule n. It is either random or, in about half of
// the cases, the limit that the rule had before its current one. Going back to an old
// limit puts denials under one limit between requests under another. For a windowed
// algorithm the limit has the same period, because the model does not define how counts
// are converted to another period.
func (g *generator) changedLimit(n int) headgate.Limit {
	r := g.player.rules[n]
	previous, known := g.earlier[n]
	if g.earlier == nil {
		g.earlier = make(map[int]headgate.Limit)
	}
	g.earlier[n] = r.limit
	if known && g.tester.random.IntN(2) == 0 {
		return previous
	}
	for {
		l := randomLimit(g.tester.random, r.algorithm)
		if g.tester.random.IntN(2) == 0 {
			l.Rate = r.limit.Rate
		}
		if r.algorithm.Windowed() {
			l.Period, l.Calendar = r.limit.Period, r.limit.Calendar
		}
		if validFor(r.algorithm, l) {
			return l
		}
	}
}

// nextInstant returns the instant of the next step. It prefers instants at which
// decisions change: the end of a wait and 1 µs before it, and the edges of windows.
func (g *generator) nextInstant() headgate.Instant {
	r := g.tester.random
	period := g.period()
	at := int64(g.at)
	switch r.IntN(14) {
	case 0:
		at += 1
	case 1:
		at += g.answer.RetryAfter.Microseconds()
	case 2:
		at += g.answer.RetryAfter.Microseconds() - 1
	case 3:
		at += g.answer.ResetAfter.Microseconds()
	case 4:
		at += g.answer.ResetAfter.Microseconds() - 1
	case 5:
		at += period - at%period
	case 6:
		at += period - at%period - 1
	case 7:
		at += r.Int64N(period)
	case 8:
		at += period * r.Int64N(4)
	case 9:
		at += logUniform(r, headgate.MaxFillTime.Microseconds())
	case 10:
		if g.player.canGoBack() {
			at -= logUniform(r, 2*period)
		}
	default: // no case: the same instant again, as in a burst
	}
	if at < int64(g.player.latest) && !g.player.canGoBack() {
		at = int64(g.player.latest)
	}
	return headgate.Instant(min(max(at, 0), int64(headgate.MaxInstant)))
}

func (g *generator) period() int64 {
	rules := g.player.rules
	return periodOf(rules[g.tester.random.IntN(len(rules))].limit)
}

func checkNever(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		limit := randomLimit(ts.random, a)
		l := ts.limiterFor(headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{limit}})
		most := maxCost(a, limit)
		for _, cost := range []int64{most + 1, math.MaxInt64} {
			if d := ts.take(l, start, "key", cost); d.Allowed || !d.Never || d.RetryAfter != 0 || d.Limit != most || d.Remaining != most {
				ts.failf("%s: cost %d of an unused key: got %s want never, no wait, and all %d remaining", describe(l), cost, formatDecision(d), most)
			}
		}
		if d := ts.mustAllow(l, start, "key", most); d.Never || d.Remaining != 0 || d.RetryAfter != 0 || len(d.DeniedBy) != 0 {
			ts.failf("%s: cost %d of an unused key: got %s want allowed with 0 remaining", describe(l), most, formatDecision(d))
		}
		if d := ts.mustDeny(l, start, "key", most+1); !d.Never || d.RetryAfter != 0 {
			ts.failf("%s: cost %d of a spent key: got %s want never", describe(l), most+1, formatDecision(d))
		}
	})
}
