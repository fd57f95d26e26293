package storetest

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

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
		p.limit = p.wholeUnits()
	}
}

// wholeUnits returns a limit under which a unit takes a whole number of µs.
func (p *leasePlayer) wholeUnits() headgate.Limit {
	for {
		l := headgate.Limit{Rate: 1 + p.random.Int64N(20)}
		l.Period = time.Duration(l.Rate) * micros.Duration(1+logUniform(p.random, 10_000_000))
		l.Burst = []int64{0, 1 + p.random.Int64N(10), logUniform(p.random, 1_000_000)}[p.random.IntN(3)]
		if validFor(p.algorithm, l) && l.Capacity()/l.Rate*periodOf(l) < 1e13 {
			return l
		}
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

// changeLimit changes the limit. The model does not define what a count is after a change
// of the period.
func (p *leasePlayer) changeLimit() {
	l := p.limit
	switch {
	case !p.judged && !p.algorithm.Windowed():
		l = p.wholeUnits()
	case p.algorithm.Windowed():
		l.Rate = 1 + p.random.Int64N(2*l.Rate)
		if p.algorithm == headgate.SlidingLog && !p.judged {
			l.Period = min(l.Period, randomPeriod(p.random)) // units that have aged out may be gone
		}
	default:
		l.Burst = 1 + p.random.Int64N(2*l.Capacity())
	}
	if !validFor(p.algorithm, l) || l.Capacity() > 1e6 || l.Capacity()/l.Rate*periodOf(l) >= 1e13 {
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
