package storetest

import (
	"fmt"
	"slices"
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

// step is one request, or one change of a limit.
type step struct {
	at     headgate.Instant
	verb   verb
	debits []debit // one debit, or several for takeAll and peekAll
	// for changeLimit, the new limit of the rule in the first debit
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

// keysPerRule is the number of keys that a trace uses under each rule.
const keysPerRule = 2

// player executes a trace on both the store and the model, and compares the decisions.
type player struct {
	tester   *tester
	rules    []rule
	names    []string
	limiters []*headgate.Limiter
	keys     [][keysPerRule]*playedKey
	latest   headgate.Instant
	tally    *tally
}

// playedKey is the model's state of a key in a trace.
type playedKey struct {
	model     *model.Key
	used      bool           // units have been spent since the key was new or reset
	stale     bool           // the limit has changed since the state last changed
	lastLimit headgate.Limit // the limit of the request that last changed the state
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

// play executes one step on the store and on the model. answer is the model's decision.
// If the store's decision is different, difference describes how.
func (p *player) play(s step) (answer headgate.Decision, difference error) {
	if s.verb == changeLimit {
		p.changeLimit(s)
		return answer, nil
	}
	if err := p.resetUnused(s); err != nil {
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

// resetUnused resets those keys of a step whose limit has changed and that had
// recovered under their previous limit. One store may have dropped the state of such a
// key, another may have kept it, and the kept state may count again under the new
// limit. After a reset, both stores must decide alike.
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
	}
	switch at, c := int64(s.at), debits[0]; s.verb {
	case take, takeAll:
		d := model.TakeAll(at, debits)
		p.markUsed(s, d.Allowed)
		if d.Allowed {
			p.markChanged(s)
		}
		return d
	case refund:
		p.markChanged(s)
		return c.Key.Refund(c.Limit, at, c.Cost)
	case reset:
		k := p.keys[s.debits[0].rule][s.debits[0].key]
		k.used, k.stale = false, false
		return c.Key.Reset(c.Limit, at)
	default:
		return model.PeekAll(at, debits)
	}
}

// markChanged records the limits under which a request changed the states of its keys.
// Denied requests and costs of 0 leave the states as they are.
func (p *player) markChanged(s step) {
	for _, c := range s.debits {
		if c.cost > 0 {
			k := p.keys[c.rule][c.key]
			k.stale, k.lastLimit = false, p.rules[c.rule].limit
		}
	}
}

// markUsed marks the keys of a request as used if units were taken. With
// Options.NonAtomic it does so even if the units were refunded, because their effect
// may be visible at an earlier instant.
func (p *player) markUsed(s step, allowed bool) {
	refunded := s.verb == takeAll && p.tester.options.NonAtomic
	for _, c := range s.debits {
		if k := p.keys[c.rule][c.key]; (allowed || refunded) && c.cost > 0 {
			if !k.used {
				k.lastLimit = p.rules[c.rule].limit
			}
			k.used = true
		}
	}
}

// checkRetryAfter requires that the wait of a denial is exact: a peek at its end must
// be allowed, a peek 1 µs before that must be denied. It peeks at the later instant
// first, in order to detect a store in which such a peek changes the state.
//
// The wait of a bucket with a stale key may be too short: TAT counts as at most t + B·T
// of the new limit in an answer, but the denial does not change it.
func (p *player) checkRetryAfter(s step, d headgate.Decision) error {
	then := s.at + headgate.Instant(d.RetryAfter.Microseconds())
	if d.Allowed || d.Never || then > headgate.MaxInstant {
		return nil
	}
	p.tally.rechecked++
	checks := p.checks(s)
	later, err := headgate.PeekAllAt(background, then.Time(), checks...)
	if err != nil || !later.Allowed && !p.hasStaleKey(s) {
		return fmt.Errorf("denied with retry_after=%d µs; a peek at that time: got %s, error %v; want allowed", d.RetryAfter.Microseconds(), formatDecision(later), err)
	}
	sooner, err := headgate.PeekAllAt(background, (then - 1).Time(), checks...)
	if err != nil || sooner.Allowed {
		return fmt.Errorf("denied with retry_after=%d µs; a peek 1 µs before that time: got %s, error %v; want denied", d.RetryAfter.Microseconds(), formatDecision(sooner), err)
	}
	return nil
}

// hasStaleKey reports whether the state of a key of the request was last changed under
// another limit.
func (p *player) hasStaleKey(s step) bool {
	return slices.ContainsFunc(s.debits, func(c debit) bool { return p.keys[c.rule][c.key].stale })
}

// canGoBack reports whether the model can predict decisions at instants before the
// latest instant. It cannot if units have expired at the latest instant, because a
// store may or may not have dropped them.
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

// replay executes t with new policy names. It returns the index of the first step whose
// decision differs, and a description of the difference, which is nil if no decision
// differs.
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

// shrink removes steps from a trace as long as the remaining trace still shows a
// difference. It returns the trace and the difference.
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

// String returns the trace as a table from which the decisions can be calculated by
// hand.
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
