package storetest

import (
	"time"

	"github.com/headgate/headgate"
)

// This file has the changes of the limit in traces with holds. If expired holds are
// released, such a trace uses one key: the units of a hold are released by the next
// operation on its key, under the limit of that operation.

// changeLimit changes the limit, and resumes all holds under it, as a process with
// another configuration does.
func (p *holdPlayer) changeLimit() {
	l := p.changedLimit(p.algorithm)
	if !validForHolds(p.algorithm, l) {
		return
	}
	if p.algorithm == headgate.TokenBucketInterval {
		p.refill()
	}
	limiter, err := p.limiter.WithLimits(l)
	p.mustf(err, "%v: limit %v", p.limit, l)
	p.limit, p.limiter = l, limiter
	p.tracef("limit %v", l)
	for _, h := range p.holds {
		h.hold = headgate.ResumeHold(h.hold.ID(), headgate.Instant(h.deadline).Time(), p.checks(h.amounts)...)
	}
}

// refill makes every store write the tokens that a bucket has at present. A store may not
// do so for a request that is denied, and then refills under the next limit.
func (p *holdPlayer) refill() {
	p.tracef("debit 1, refund 1")
	for i, k := range p.keys {
		k.Begin(p.limit, p.at)
		want := k.Debit(p.limit, p.at, 1)
		got, err := p.limiter.DebitAt(background, p.now(), keyNames[i], 1)
		p.must(got, err, want)
		want = k.Refund(p.limit, p.at, 1)
		got, err = p.limiter.RefundAt(background, p.now(), keyNames[i], 1)
		p.must(got, err, want)
	}
}

// checkDeniedHoldUnderChangedLimit tests that a denied hold converts no state to another
// limit, not even of a key from which it wanted no units.
func checkDeniedHoldUnderChangedLimit(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	l := ts.limiter(a, "10/1h")
	for i := range 8 { // in a cluster, the keys are in different hash slots
		key, other := keyNames[0]+string(rune('a'+i)), keyNames[1]+string(rune('a'+i))
		ts.mustAllow(l, start, key, 9)
		before := ts.observe(l, start+1, key)
		changed, err := l.WithLimits(headgate.MustParseLimit("2/1m"))
		ts.mustf(err, "%s: other limits", describe(l))
		h, err := headgate.HoldAllAt(background, start.Time(), &headgate.HoldOptions{TTL: time.Minute},
			headgate.Check{Limiter: changed, Key: key, Cost: 0}, headgate.Check{Limiter: changed, Key: other, Cost: 3})
		if ts.mustf(err, "%s: hold", describe(changed)); h.OK() {
			ts.failf("%s: hold of 3 units: got allowed want denied", describe(changed))
		}
		ts.mustEqual(ts.observe(l, start+1, key), before, l, "after a hold was denied under another limit")
	}
}

// checkNothingSpentUnderChangedLimit tests that an operation that spends no units
// converts no state to another limit: what was spent under the present limit stays spent.
func checkNothingSpentUnderChangedLimit(ts *tester, a headgate.Algorithm) {
	if a.OnlyHolds() || !ts.hasHolds(a) {
		return
	}
	l := ts.limiterFor(headgate.Policy{
		Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit("1000/24h")}, Holds: headgate.HoldSettings{ExcessPolicy: headgate.ClipExcess},
	})
	changed, err := l.WithLimits(headgate.MustParseLimit("10/24h"))
	ts.mustf(err, "%s: other limits", describe(l))
	ts.hold(l, start, "key", 0, time.Hour) // open during the whole test
	equal, more := ts.hold(l, start, "key", 3, time.Hour), ts.hold(l, start, "key", 3, time.Hour)
	_, err = l.DebitAt(background, start.Time(), "key", 100_000)
	ts.mustf(err, "%s: debit", describe(l))
	before := ts.observe(l, start+1, "key")
	for what, call := range map[string]func() error{
		"up to 1":  func() error { _, _, err := changed.TakeUpToAt(background, start.Time(), "key", 1); return err },
		"up to 0":  func() error { _, _, err := changed.TakeUpToAt(background, start.Time(), "key", 0); return err },
		"debit 0":  func() error { _, err := changed.DebitAt(background, start.Time(), "key", 0); return err },
		"refund 0": func() error { _, err := changed.RefundAt(background, start.Time(), "key", 0); return err },
		"hold 0":   func() error { _, err := changed.HoldAt(background, start.Time(), "key", 0, time.Hour); return err },
		"hold 1":   func() error { _, err := changed.HoldAt(background, start.Time(), "key", 1, time.Hour); return err },
		"several": func() error {
			_, err := headgate.HoldAllAt(background, start.Time(), &headgate.HoldOptions{TTL: time.Hour},
				headgate.Check{Limiter: changed, Key: "key", Cost: 0}, headgate.Check{Limiter: changed, Key: "other", Cost: 0})
			return err
		},
		"commit of the amount":                     func() error { return ts.commitUnder(changed, equal, 3) },
		"commit of more, of which nothing remains": func() error { return ts.commitUnder(changed, more, 5) },
	} {
		ts.mustf(call(), "%s: %s", describe(changed), what)
		ts.mustEqual(ts.observe(l, start+1, "key"), before, l, "after "+what+" under another limit")
	}
}

// commitUnder commits a hold of 3 units of "key" with a limiter that has another limit.
func (ts *tester) commitUnder(l *headgate.Limiter, h *headgate.Hold, actual int64) error {
	resumed := headgate.ResumeHold(h.ID(), h.ExpiresAt(), headgate.Check{Limiter: l, Key: "key", Cost: 3})
	_, err := resumed.CommitAt(background, start.Time(), actual)
	return err
}
