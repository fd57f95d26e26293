package storetest

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// trace is a sequence of requests that can be replayed.
type trace struct {
	rules []rule
	steps []step
}

type rule struct {
	algorithm headgate.Algorithm
	limit     headgate.Limit
}

// step is one request, or a change of a limit.
type step struct {
	at     headgate.Instant
	verb   verb
	debits []debit // one, except for takeAll and peekAll
	// limit is the new limit of the first debit's rule, for changeLimit.
	limit headgate.Limit
}

type debit struct {
	rule, key int
	cost      int64
}

type verb int

const (
	take verb = iota
	peek
	refund
	reset
	takeAll
	peekAll
	changeLimit
)

func (v verb) String() string {
	return [...]string{"take", "peek", "refund", "reset", "take all", "peek all", "change limit"}[v]
}

// keysPerRule is the number of keys of each rule in a trace.
const keysPerRule = 2

// player plays a trace on the store and on the model and compares the decisions.
type player struct {
	tester   *tester
	rules    []rule
	names    []string
	limiters []*headgate.Limiter
	keys     [][keysPerRule]*playedKey
	latest   headgate.Instant
	tally    *tally
}

// playedKey is a key in the model.
type playedKey struct {
	model     *model.Key
	used      bool           // units were spent since it was new or reset
	stale     bool           // its limit has changed since its last request
	lastLimit headgate.Limit // the limit of its last request
}

func (ts *tester) player(rules []rule) *player {
	p := &player{tester: ts, rules: append([]rule(nil), rules...), tally: &tally{}}
	for _, r := range rules {
		p.names = append(p.names, ts.name())
		p.limiters = append(p.limiters, ts.limiterFor(policyOf(p.names[len(p.names)-1], r)))
		var keys [keysPerRule]*playedKey
		for i := range keys {
			keys[i] = &playedKey{model: model.NewKey(r.algorithm)}
		}
		p.keys = append(p.keys, keys)
	}
	return p
}

func policyOf(name string, r rule) headgate.Policy {
	return headgate.Policy{Name: name, Algorithm: r.algorithm, Limits: []headgate.Limit{r.limit}}
}

func keyName(k int) string { return [keysPerRule]string{"k0", "k1"}[k] }

// play executes one step on both. difference describes how the decisions differ.
func (p *player) play(s step) (answer headgate.Decision, difference error) {
	if s.verb == changeLimit {
		p.changeLimit(s)
		return answer, nil
	}
	if err := p.resetUnused(s); err != nil {
		return answer, err
	}
	if err := p.carryOver(s); err != nil {
		return answer, err
	}
	got, err := p.onStore(s)
	want := p.onModel(s)
	if err != nil {
		return want, fmt.Errorf("got error %w want %s", err, formatDecision(want))
	}
	if !equalDecisions(got, want) {
		return want, fmt.Errorf("got  %s\nwant %s", formatDecision(got), formatDecision(want))
	}
	p.latest = max(p.latest, s.at)
	p.tally.compared++
	if !got.Allowed {
		p.tally.denied++
	}
	return want, p.checkRetryAfter(s, got)
}

// resetUnused resets the keys of a step whose limit has changed and that have recovered
// under their previous limit. One store may have evicted such a key; another may have
// kept it, and its state may count again under the new limit. Only a reset makes the
// two equal.
func (p *player) resetUnused(s step) error {
	for _, c := range s.debits {
		k := p.keys[c.rule][c.key]
		if !k.stale || !k.model.Unused(k.lastLimit, int64(s.at)) {
			continue
		}
		if _, err := p.limiters[c.rule].ResetAt(background, s.at.Time(), keyName(c.key)); err != nil {
			return fmt.Errorf("reset of key k%d of rule %d: %w", c.key, c.rule, err)
		}
		k.model.Reset(p.rules[c.rule].limit, int64(s.at))
		k.used, k.stale = false, false
	}
	return nil
}

// carryOver takes 0 from the keys of a request whose limit has changed, if the store
// takes from keys one after another. Such a store does not reach the keys after the
// first denial, and state is carried over to a new limit by the first request under it.
func (p *player) carryOver(s step) error {
	if s.verb != takeAll || !p.tester.options.NonAtomic {
		return nil
	}
	for _, c := range s.debits {
		if !p.keys[c.rule][c.key].stale {
			continue
		}
		if _, err := p.play(step{at: s.at, verb: take, debits: []debit{{rule: c.rule, key: c.key}}}); err != nil {
			return fmt.Errorf("take 0 of key k%d of rule %d: %w", c.key, c.rule, err)
		}
	}
	return nil
}

func (p *player) changeLimit(s step) {
	r := s.debits[0].rule
	p.rules[r].limit = s.limit
	p.limiters[r] = p.tester.limiterFor(policyOf(p.names[r], p.rules[r]))
	for _, k := range p.keys[r] {
		k.stale = k.used
	}
}

func (p *player) onStore(s step) (headgate.Decision, error) {
	c := s.debits[0]
	l, key := p.limiters[c.rule], keyName(c.key)
	switch s.verb {
	case take:
		return l.AllowAt(background, s.at.Time(), key, c.cost)
	case peek:
		return l.PeekAt(background, s.at.Time(), key, c.cost)
	case refund:
		return l.RefundAt(background, s.at.Time(), key, c.cost)
	case reset:
		return l.ResetAt(background, s.at.Time(), key)
	case takeAll:
		return headgate.AllowAllAt(background, s.at.Time(), p.checks(s)...)
	default:
		return headgate.PeekAllAt(background, s.at.Time(), p.checks(s)...)
	}
}

func (p *player) checks(s step) []headgate.Check {
	checks := make([]headgate.Check, len(s.debits))
	for i, c := range s.debits {
		checks[i] = headgate.Check{Limiter: p.limiters[c.rule], Key: keyName(c.key), Cost: c.cost}
	}
	return checks
}

func (p *player) onModel(s step) headgate.Decision {
	debits := make([]model.Debit, len(s.debits))
	for i, c := range s.debits {
		k := p.keys[c.rule][c.key]
		debits[i] = model.Debit{Key: k.model, Name: p.names[c.rule], Limit: p.rules[c.rule].limit, Cost: c.cost}
		if s.verb != peek && s.verb != peekAll {
			k.stale, k.lastLimit = false, p.rules[c.rule].limit
		}
	}
	switch at, c := int64(s.at), debits[0]; s.verb {
	case take, takeAll:
		d := model.TakeAll(at, debits)
		p.markUsed(s, d.Allowed)
		return d
	case refund:
		return c.Key.Refund(c.Limit, at, c.Cost)
	case reset:
		p.keys[s.debits[0].rule][s.debits[0].key].used = false
		return c.Key.Reset(c.Limit, at)
	default:
		return model.PeekAll(at, debits)
	}
}

// markUsed marks the keys of a request as used. Units that were taken and refunded may
// have an effect that is visible only at an earlier instant.
func (p *player) markUsed(s step, allowed bool) {
	refunded := s.verb == takeAll && p.tester.options.NonAtomic
	for _, c := range s.debits {
		if (allowed || refunded) && c.cost > 0 {
			p.keys[c.rule][c.key].used = true
		}
	}
}

// checkRetryAfter peeks again at the end of a denial's wait and 1 µs earlier: the wait
// must be exact. It peeks at the later instant first, to detect a store in which such a
// peek changes the state. The wait is not exact for a peek at a key whose limit has
// changed and that was not used since, because only the next take carries the state
// over.
func (p *player) checkRetryAfter(s step, d headgate.Decision) error {
	then := s.at + headgate.Instant(d.RetryAfter.Microseconds())
	if d.Allowed || d.Never || then > headgate.MaxInstant || p.stale(s) {
		return nil
	}
	p.tally.rechecked++
	checks := p.checks(s)
	later, err := headgate.PeekAllAt(background, then.Time(), checks...)
	if err != nil || !later.Allowed {
		return fmt.Errorf("denied with retry_after=%d; peek at that time: got %s, error %v want allowed", d.RetryAfter.Microseconds(), formatDecision(later), err)
	}
	sooner, err := headgate.PeekAllAt(background, (then - 1).Time(), checks...)
	if err != nil || sooner.Allowed {
		return fmt.Errorf("denied with retry_after=%d; peek 1 µs earlier: got %s, error %v want denied", d.RetryAfter.Microseconds(), formatDecision(sooner), err)
	}
	return nil
}

func (p *player) stale(s step) bool {
	for _, c := range s.debits {
		if p.keys[c.rule][c.key].stale {
			return true
		}
	}
	return false
}

// canGoBack reports whether the decisions at an instant before the latest one are
// determined. A store may or may not have dropped units that no longer count at the
// latest instant.
func (p *player) canGoBack() bool {
	for r, keys := range p.keys {
		for _, k := range keys {
			if k.used && (k.model.HasExpiredUnits(p.rules[r].limit, int64(p.latest)) || k.model.HasExpiredUnits(k.lastLimit, int64(p.latest))) {
				return false
			}
		}
	}
	return true
}

// replay plays t with new names. It returns the index of the first step that differs,
// and the difference.
func (ts *tester) replay(t trace) (step int, difference error) {
	p := ts.player(t.rules)
	for i, s := range t.steps {
		if s.at < p.latest && !p.canGoBack() {
			return 0, nil
		}
		if _, difference := p.play(s); difference != nil {
			return i, difference
		}
	}
	return 0, nil
}

// shrink removes steps from a trace as long as the rest still shows a difference.
func (ts *tester) shrink(t trace) (trace, error) {
	i, difference := ts.replay(t)
	if difference == nil {
		return t, nil
	}
	t.steps = t.steps[:i+1]
	for size := max(1, len(t.steps)/2); size > 0; size /= 2 {
		for from := 0; from+size < len(t.steps); {
			shorter := trace{t.rules, append(append([]step(nil), t.steps[:from]...), t.steps[from+size:]...)}
			if i, d := ts.replay(shorter); d != nil {
				difference, t.steps = d, shorter.steps[:i+1]
			} else {
				from += size
			}
		}
	}
	return t, difference
}

// String returns the trace as a table for a calculation by hand.
func (t trace) String() string {
	var b strings.Builder
	for i, r := range t.rules {
		fmt.Fprintf(&b, "\trule %d: %s %v\n", i, r.algorithm, r.limit)
	}
	for _, s := range t.steps {
		fmt.Fprintf(&b, "\tt=%d %s", s.at, s.verb)
		for _, c := range s.debits {
			fmt.Fprintf(&b, " (rule %d, key k%d, cost %d)", c.rule, c.key, c.cost)
		}
		if s.verb == changeLimit {
			fmt.Fprintf(&b, " to %v", s.limit)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
