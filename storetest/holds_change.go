package storetest

import "github.com/headgate/headgate"

// This file has the changes of the limit in traces with holds. If expired holds are
// released, such a trace uses one key: the units of a hold are released by the next
// operation on its key, under the limit of that operation.

// changeLimit changes the limit, and resumes all holds under it, as a process with another
// configuration does.
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
