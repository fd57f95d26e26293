package storetest

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// trace is a sequence of requests that can be played again.
type trace struct {
	rules []rule
	steps []step
}

type rule struct {
	algorithm headgate.Algorithm
	limit     headgate.Limit
}

// step is one request, or a changed limit.
type step struct {
	at      headgate.Instant
	verb    verb
	charges []charge       // one, but for takeAll and peekAll
	limit   headgate.Limit // for changeLimit: the new limit of the first charge's rule
}

type charge struct {
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

// keysPerRule is how many keys of each rule a trace uses.
const keysPerRule = 2

// player plays a trace on the store and on the model side by side.
type player struct {
	judge    *judge
	rules    []rule
	names    []string
	limiters []*headgate.Limiter
	keys     [][keysPerRule]*playedKey
	latest   headgate.Instant
	tally    *tally
}

// playedKey is a key as the model has it.
type playedKey struct {
	model *model.Key
	used  bool           // something was spent on it since it was new or reset
	stale bool           // its limit has changed since it was last charged
	under headgate.Limit // the limit it was last charged under
}

func (j *judge) player(rules []rule) *player {
	p := &player{judge: j, rules: append([]rule(nil), rules...), tally: &tally{}}
	for _, r := range rules {
		p.names = append(p.names, j.name())
		p.limiters = append(p.limiters, j.limiterFor(policyOf(p.names[len(p.names)-1], r)))
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

// play does one step on both and says how they differ.
func (p *player) play(s step) (answer headgate.Decision, difference error) {
	if s.verb == changeLimit {
		p.changeLimit(s)
		return answer, nil
	}
	if err := p.dropIdle(s); err != nil {
		return answer, err
	}
	if err := p.carryOver(s); err != nil {
		return answer, err
	}
	got, err := p.onStore(s)
	want := p.onModel(s)
	if err != nil {
		return want, fmt.Errorf("got error %w want %s", err, show(want))
	}
	if !same(got, want) {
		return want, fmt.Errorf("got  %s\nwant %s", show(got), show(want))
	}
	p.latest = max(p.latest, s.at)
	p.tally.compared++
	if !got.Allowed {
		p.tally.denied++
	}
	return want, p.honest(s, got)
}

// dropIdle resets the step's keys whose limit was changed and which, under the limit they were used under, are as if never used
// by now. A store may have dropped them, and another may have kept what the new limit makes a debt of: only a reset makes the
// two equal.
func (p *player) dropIdle(s step) error {
	for _, c := range s.charges {
		k := p.keys[c.rule][c.key]
		if !k.stale || !k.model.Idle(k.under, int64(s.at)) {
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

// carryOver asks, with a cost of 0, for keys whose limit was changed before they are charged together by a store that does so one
// after another: after the first denial it does not come to the others, and what the new limit makes of a debt begins with a
// key's first use under it.
func (p *player) carryOver(s step) error {
	if s.verb != takeAll || !p.judge.options.NonAtomic {
		return nil
	}
	for _, c := range s.charges {
		if !p.keys[c.rule][c.key].stale {
			continue
		}
		if _, err := p.play(step{at: s.at, verb: take, charges: []charge{{rule: c.rule, key: c.key}}}); err != nil {
			return fmt.Errorf("take 0 of key k%d of rule %d: %w", c.key, c.rule, err)
		}
	}
	return nil
}

func (p *player) changeLimit(s step) {
	r := s.charges[0].rule
	p.rules[r].limit = s.limit
	p.limiters[r] = p.judge.limiterFor(policyOf(p.names[r], p.rules[r]))
	for _, k := range p.keys[r] {
		k.stale = k.used
	}
}

func (p *player) onStore(s step) (headgate.Decision, error) {
	c := s.charges[0]
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
	checks := make([]headgate.Check, len(s.charges))
	for i, c := range s.charges {
		checks[i] = headgate.Check{Limiter: p.limiters[c.rule], Key: keyName(c.key), Cost: c.cost}
	}
	return checks
}

func (p *player) onModel(s step) headgate.Decision {
	charges := make([]model.Debit, len(s.charges))
	for i, c := range s.charges {
		k := p.keys[c.rule][c.key]
		charges[i] = model.Debit{Key: k.model, Name: p.names[c.rule], Limit: p.rules[c.rule].limit, Cost: c.cost}
		if s.verb != peek && s.verb != peekAll {
			k.stale, k.under = false, p.rules[c.rule].limit
		}
	}
	switch at, c := int64(s.at), charges[0]; s.verb {
	case take, takeAll:
		d := model.TakeAll(at, charges)
		p.noteUse(s, d.Allowed)
		return d
	case refund:
		return c.Key.Refund(c.Limit, at, c.Cost)
	case reset:
		p.keys[s.charges[0].rule][s.charges[0].key].used = false
		return c.Key.Reset(c.Limit, at)
	default:
		return model.PeekAll(at, charges)
	}
}

// noteUse marks keys as used. What was taken and given back may leave a trace that is seen from an earlier instant only.
func (p *player) noteUse(s step, allowed bool) {
	givenBack := s.verb == takeAll && p.judge.options.NonAtomic
	for _, c := range s.charges {
		if (allowed || givenBack) && c.cost > 0 {
			p.keys[c.rule][c.key].used = true
		}
	}
}

// honest asks again when a denial said to, and 1 µs earlier: rule by rule the wait is exact. Later comes first, so that a store
// which lets a look at a later instant change its state is caught. The one wait that may not come true is that of a peek at a
// key whose limit was changed and which nobody has used since: what the new limit makes of its debt begins with that use.
func (p *player) honest(s step, d headgate.Decision) error {
	then := s.at + headgate.Instant(d.RetryAfter.Microseconds())
	if d.Allowed || d.Never || then > headgate.MaxInstant || p.stale(s) {
		return nil
	}
	p.tally.askedAgain++
	checks := p.checks(s)
	later, err := headgate.PeekAllAt(background, then.Time(), checks...)
	if err != nil || !later.Allowed {
		return fmt.Errorf("denied with retry_after=%d; asked again then: got %s, error %v want allowed", d.RetryAfter.Microseconds(), show(later), err)
	}
	sooner, err := headgate.PeekAllAt(background, (then - 1).Time(), checks...)
	if err != nil || sooner.Allowed {
		return fmt.Errorf("denied with retry_after=%d; asked 1 µs earlier: got %s, error %v want denied", d.RetryAfter.Microseconds(), show(sooner), err)
	}
	return nil
}

func (p *player) stale(s step) bool {
	for _, c := range s.charges {
		if p.keys[c.rule][c.key].stale {
			return true
		}
	}
	return false
}

// mayGoBack says whether the answers at an instant before the latest are determined: what no longer counts at the latest may
// have been dropped, and a store that kept it knows more.
func (p *player) mayGoBack() bool {
	for r, keys := range p.keys {
		for _, k := range keys {
			if k.used && (k.model.Forgets(p.rules[r].limit, int64(p.latest)) || k.model.Forgets(k.under, int64(p.latest))) {
				return false
			}
		}
	}
	return true
}

// playAll plays t on names of its own and says which step differs first, and how.
func (j *judge) playAll(t trace) (step int, difference error) {
	p := j.player(t.rules)
	for i, s := range t.steps {
		if s.at < p.latest && !p.mayGoBack() {
			return 0, nil
		}
		if _, difference := p.play(s); difference != nil {
			return i, difference
		}
	}
	return 0, nil
}

// shortest drops steps from a trace that differs for as long as the rest still does.
func (j *judge) shortest(t trace) (trace, error) {
	i, difference := j.playAll(t)
	if difference == nil {
		return t, nil
	}
	t.steps = t.steps[:i+1]
	for size := max(1, len(t.steps)/2); size > 0; size /= 2 {
		for from := 0; from+size < len(t.steps); {
			less := trace{t.rules, append(append([]step(nil), t.steps[:from]...), t.steps[from+size:]...)}
			if i, d := j.playAll(less); d != nil {
				difference, t.steps = d, less.steps[:i+1]
			} else {
				from += size
			}
		}
	}
	return t, difference
}

// String is the trace as a table that can be worked by hand.
func (t trace) String() string {
	var b strings.Builder
	for i, r := range t.rules {
		fmt.Fprintf(&b, "\trule %d: %s %v\n", i, r.algorithm, r.limit)
	}
	for _, s := range t.steps {
		fmt.Fprintf(&b, "\tt=%d %s", s.at, s.verb)
		for _, c := range s.charges {
			fmt.Fprintf(&b, " (rule %d, key k%d, cost %d)", c.rule, c.key, c.cost)
		}
		if s.verb == changeLimit {
			fmt.Fprintf(&b, " to %v", s.limit)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
