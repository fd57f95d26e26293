package lease

import (
	"math"
	"math/rand/v2"
)

// sizing computes the number of units that a process takes in advance for one key.
type sizing struct {
	demand float64 // units per TTL that were requested at this process
	max    int64   // most units of a lease; it shrinks while others use up the maximum
	since  int64   // beginning of the present measurement
	mark   int64   // units that were requested since then, at the last tick
	trip   float64 // time of a call in ns, averaged
}

// measure updates the demand after asked units at the time now.
func (z *sizing) measure(now, asked, ttl, minCallInterval int64) {
	elapsed := max(now-z.since, minCallInterval/4, 1)
	z.demand = (z.demand + float64(asked)*float64(ttl)/float64(elapsed)) / 2
	z.since, z.mark = now, 0
}

// target returns the number of units that the process should have.
func (z *sizing) target() int64 { return int64(min(max(math.Ceil(z.demand), 1), float64(z.max))) }

// adjustMax changes max after a reply. If the leases of all processes have used up the
// maximum, each process halves its own maximum, so that the others can take a part.
func (z *sizing) adjustMax(clipped bool, most int64) {
	if clipped {
		z.max = max(z.max/2, 1)
		return
	}
	z.max = min(z.max+z.max/8+1, most)
}

// renewBelow returns the number of units at which a renewal of a lease begins. The
// process needs that many units during two calls. It is at least an eighth and at most
// half of the units.
func (z *sizing) renewBelow(units, ttl int64) int64 {
	need := int64(min(z.demand*2*z.trip/float64(ttl), math.MaxInt32))
	return min(max(need, units/8), units/2)
}

// measureTrip updates the time of a call.
func (z *sizing) measureTrip(ns int64) {
	if z.trip == 0 {
		z.trip = float64(ns)
	}
	z.trip += (float64(ns) - z.trip) / 8
}

// jitter returns a random time from 0 to below most, in ns.
func jitter(most int64) int64 { return rand.Int64N(max(most, 1)) }
