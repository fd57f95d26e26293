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
