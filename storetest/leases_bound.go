package storetest

import (
	"math"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// checkLeaseBound plays random traces in which processes spend units under their leases
// until a renewal is sent or the lease ends, and judges all spent units in every span.
func checkLeaseBound(ts *tester, a headgate.Algorithm) { ts.leaseTraces(a, true) }

// spending is a number of units that were spent at an instant.
type spending struct{ at, units int64 }

// judge compares the spent units with the bound of the algorithm, in every span.
func (p *leasePlayer) judge() {
	if !p.judged {
		return
	}
	bound := model.UpperBoundOf(p.algorithm, p.highest)
	for i := range p.spends {
		sum, from := int64(0), p.spends[i].at
		for _, s := range p.spends[i:] {
			if sum += s.units; s.at-from > math.MaxInt64/2/p.highest.Rate {
				break
			}
			if most := bound(from, s.at); sum > most {
				p.failTrace("%d units were spent from %d to %d; the bound is %d", sum, from, s.at, most)
			}
		}
	}
}

// resetOrTake resets the key in one of ten calls, and takes units otherwise.
func (p *leasePlayer) resetOrTake() {
	if p.random.IntN(10) > 0 {
		p.take()
		return
	}
	p.reset()
}

// spend spends units of an open lease, without the store.
func (p *leasePlayer) spend() {
	if len(p.leases) > 0 {
		p.spendUnder(p.pick())
	}
}

// spendUnder spends some of the units that are left of a lease, and returns their number.
func (p *leasePlayer) spendUnder(l *playedLease) int64 {
	units, _, ok := p.key.Leased(l.call.ID, p.at)
	if !ok {
		return 0
	}
	n := p.random.Int64N(units - l.spent + 1)
	l.spent += n
	p.spends = append(p.spends, spending{p.at, n})
	return n
}
