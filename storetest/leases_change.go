package storetest

import "github.com/headgate/headgate"

// This file has the changes of the limit in traces with leases.

// beginChanging prepares a trace with changes of the limit. In a bucket, a unit takes a
// whole number of µs, because a fraction is rounded when the limit changes. In a judged
// trace, one change follows, of the capacity only: after several changes, or another
// rate, a key without leases can exceed the bound of each limit, too.
func (p *leasePlayer) beginChanging() {
	p.changing = 10
	if p.judged {
		p.changing = 1
	} else if !p.algorithm.Windowed() {
		p.limit = p.wholeUnits(p.algorithm)
	}
}

// refill makes every store write the tokens that a bucket has at present. A store may not
// do so for a request that is denied, and then refills under the next limit.
func (p *leasePlayer) refill() {
	p.tracef("debit 1, refund 1")
	p.key.Begin(p.limit, p.at)
	want := p.key.Debit(p.limit, p.at, 1)
	got, err := p.applyHold(headgate.Debit, "", 1, 0)
	p.must(got.Decision, err, want)
	p.apply(headgate.Refund, 1, p.key.Refund(p.limit, p.at, 1))
}

func (p *leasePlayer) changeLimit() {
	l := p.changedLimit(p.algorithm)
	if p.judged {
		l = p.changedCapacity()
	}
	if !validForHolds(p.algorithm, l) {
		return
	}
	if p.algorithm == headgate.TokenBucketInterval {
		p.refill()
	}
	p.changing--
	p.limit, p.rule.Limit, p.most = l, l, 1+p.random.Int64N(l.Capacity())
	if l.Capacity() > p.highest.Capacity() {
		p.highest = l
	}
	p.tracef("limit %v, max %d", l, p.most)
	p.bind()
}

// changedCapacity returns the limit with another capacity.
func (p *leasePlayer) changedCapacity() headgate.Limit {
	l := p.limit
	if p.algorithm.Windowed() {
		l.Rate = 1 + p.random.Int64N(2*l.Rate)
	} else {
		l.Burst = 1 + p.random.Int64N(2*l.Capacity())
	}
	return l
}
