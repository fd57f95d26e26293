package storetest

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// validForHolds reports whether the limit l is valid for the algorithm a, and a state
// can represent the debits of a trace.
func validForHolds(a headgate.Algorithm, l headgate.Limit) bool {
	return validFor(a, l) && l.Rate <= 1e6 && l.Capacity() <= 1e6 && l.Capacity()/l.Rate*periodOf(l) < 1e13
}

// wholeUnits returns a limit of a bucket under which a unit takes a whole number of µs.
func (p *keyPlayer) wholeUnits(a headgate.Algorithm) headgate.Limit {
	for {
		l := headgate.Limit{Rate: 1 + p.random.Int64N(20)}
		l.Period = time.Duration(l.Rate) * micros.Duration(1+logUniform(p.random, 10_000_000))
		l.Burst = []int64{0, 1 + p.random.Int64N(10), logUniform(p.random, 1_000_000)}[p.random.IntN(3)]
		if validForHolds(a, l) {
			return l
		}
	}
}

// changedLimit returns another limit for a key under the algorithm a, which may not be
// valid. In a bucket, a unit takes a whole number of µs, because a fraction is rounded
// when the limit changes. The model does not define what a count is after a change of
// the period.
func (p *keyPlayer) changedLimit(a headgate.Algorithm) headgate.Limit {
	l := p.limit
	if !a.Windowed() && !a.OnlyHolds() {
		return p.wholeUnits(a)
	}
	l.Rate = 1 + p.random.Int64N(2*l.Rate)
	if a == headgate.SlidingLog {
		l.Period = min(l.Period, randomPeriod(p.random)) // units that have aged out may be gone
	}
	return l
}
