package storetest

import (
	"fmt"
	"math"
	"sync"

	"github.com/headgate/headgate"
)

// longestTrace is how many steps a random trace has at most.
const longestTrace = 60

func answerChecks() []check {
	return []check{
		{name: "model", rule: "the answers are those of the arithmetic in rational numbers, and retry_after is exact", each: agreesWithModel},
		{name: "never", rule: "a cost above the limit is never admitted and says so; a cost of the whole limit is admitted by an unused key", each: neverAboveLimit},
	}
}

// agreesWithModel plays random traces until the share of a of the decisions is compared, each lane its part of them.
func agreesWithModel(j *judge, a headgate.Algorithm) {
	share := (j.options.Decisions/len(j.options.algorithms()))/j.options.Parallelism + 1
	var all tally
	var mu sync.Mutex
	j.spread(j.options.Parallelism, func(j *judge) {
		sum := j.compare(a, share)
		mu.Lock()
		defer mu.Unlock()
		all.add(sum)
	})
	j.seen = fmt.Sprintf("%d traces, %d decisions, 0 differ; %d were denials, %d of them asked again at retry_after and 1 µs before",
		all.traces, all.compared, all.denied, all.askedAgain)
}

// compare plays random traces until so many decisions are compared.
func (j *judge) compare(a headgate.Algorithm, share int) (sum tally) {
	for ; sum.compared < share; sum.traces++ {
		t, difference := j.randomTrace(a, &sum)
		if difference == nil {
			continue
		}
		if short, again := j.shortest(t); again != nil {
			t, difference = short, again
		}
		j.failf("trace %d, after %d decisions that agreed:\n%v%w", sum.traces, sum.compared, t, difference)
	}
	return sum
}

// tally counts what was compared.
type tally struct{ traces, compared, denied, askedAgain int }

func (t *tally) add(other tally) {
	t.traces += other.traces
	t.compared += other.compared
	t.denied += other.denied
	t.askedAgain += other.askedAgain
}

// randomTrace makes up a trace and plays it as it goes: what comes next depends on what was answered.
func (j *judge) randomTrace(a headgate.Algorithm, sum *tally) (t trace, difference error) {
	t.rules = []rule{{a, randomLimit(j.random, a)}}
	for j.random.IntN(4) == 0 && len(t.rules) < 3 {
		other := j.options.algorithms()[j.random.IntN(len(j.options.algorithms()))]
		t.rules = append(t.rules, rule{other, randomLimit(j.random, other)})
	}
	g := &generator{judge: j, player: j.player(t.rules), at: j.firstInstant()}
	g.player.tally = sum
	for range 1 + j.random.IntN(longestTrace) {
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

func (j *judge) firstInstant() headgate.Instant {
	switch j.random.IntN(5) {
	case 0:
		return headgate.Instant(j.random.Int64N(2_000_000))
	case 1:
		return headgate.Instant(j.random.Int64N(int64(headgate.MaxInstant)))
	case 2:
		return headgate.MaxInstant - headgate.Instant(j.random.Int64N(100_000_000))
	default:
		return start + headgate.Instant(j.random.Int64N(86_400_000_000))
	}
}

// generator makes up the next step from the last one's answer.
type generator struct {
	judge  *judge
	player *player
	at     headgate.Instant
	answer headgate.Decision // to the last step
}

func (g *generator) next() step {
	g.at = g.nextInstant()
	r := g.judge.random
	s := step{at: g.at, charges: []charge{g.charge(0)}}
	switch n := r.IntN(100); {
	case n < 3:
		s.verb, s.limit = changeLimit, g.changedLimit(s.charges[0].rule)
	case n < 6:
		s.verb = reset
	case n < 15:
		s.verb = refund
	case n < 25:
		s.verb = peek
	case n < 40:
		s.verb = takeAll
	case n < 45:
		s.verb = peekAll
	}
	if s.verb == takeAll || s.verb == peekAll {
		for i := 1; i < 2+r.IntN(3); i++ {
			s.charges = append(s.charges, g.charge(i))
		}
	}
	return s
}

// charge is on any rule and key, mostly the first ones. Of several charges on a request none is the whole int64: their sum must
// be one.
func (g *generator) charge(i int) charge {
	r := g.judge.random
	c := charge{rule: r.IntN(len(g.player.rules))}
	if r.IntN(4) == 0 {
		c.key = 1
	}
	most := mostOf(g.player.rules[c.rule].algorithm, g.player.rules[c.rule].limit)
	switch r.IntN(16) {
	case 0:
		c.cost = 0
	case 1:
		c.cost = most
	case 2:
		c.cost = []int64{most + 1, math.MaxInt64 / int64(i+1)}[r.IntN(2)]
	case 3, 4:
		c.cost = min(g.answer.Remaining+1, most)
	case 5:
		c.cost = min(g.answer.Remaining, most)
	case 6, 7, 8:
		c.cost = 1 + r.Int64N(most)/int64(i+1)
	case 9, 10:
		c.cost = logUniform(r, most)
	default:
		c.cost = 1
	}
	return c
}

// changedLimit keeps the period of an algorithm that counts by it: what becomes of a count under another period is told apart.
func (g *generator) changedLimit(n int) headgate.Limit {
	r := g.player.rules[n]
	for {
		l := randomLimit(g.judge.random, r.algorithm)
		if g.judge.random.IntN(2) == 0 {
			l.Rate = r.limit.Rate
		}
		if r.algorithm.Windowed() {
			l.Period = r.limit.Period
		}
		if accepted(r.algorithm, l) {
			return l
		}
	}
}

// nextInstant jumps to where answers change: the end of a wait and 1 µs beside it, the edges of windows, and anywhere.
func (g *generator) nextInstant() headgate.Instant {
	r := g.judge.random
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
		if g.player.mayGoBack() {
			at -= logUniform(r, 2*period)
		}
	default: // a burst: the clock stands still
	}
	if at < int64(g.player.latest) && !g.player.mayGoBack() {
		at = int64(g.player.latest)
	}
	return headgate.Instant(min(max(at, 0), int64(headgate.MaxInstant)))
}

func (g *generator) period() int64 {
	rules := g.player.rules
	return rules[g.judge.random.IntN(len(rules))].limit.Period.Microseconds()
}

func neverAboveLimit(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		limit := randomLimit(j.random, a)
		l := j.limiterFor(headgate.Policy{Name: j.name(), Algorithm: a, Limits: []headgate.Limit{limit}})
		most := mostOf(a, limit)
		for _, cost := range []int64{most + 1, math.MaxInt64} {
			if d := j.take(l, start, "key", cost); d.Allowed || !d.Never || d.RetryAfter != 0 || d.Limit != most || d.Remaining != most {
				j.failf("%s: cost %d of an unused key: got %s want never, no wait, and all %d remaining", describe(l), cost, show(d), most)
			}
		}
		if d := j.mustAllow(l, start, "key", most); d.Never || d.Remaining != 0 || d.RetryAfter != 0 || len(d.DeniedBy) != 0 {
			j.failf("%s: cost %d of an unused key: got %s want allowed with 0 remaining", describe(l), most, show(d))
		}
		if d := j.mustDeny(l, start, "key", most+1); !d.Never || d.RetryAfter != 0 {
			j.failf("%s: cost %d of a spent key: got %s want never", describe(l), most+1, show(d))
		}
	})
}
