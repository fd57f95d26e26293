package lease

import (
	"math"
	"math/rand/v2"
)

// sizing computes how many units a process takes in advance for one key.
type sizing struct {
	demand     float64 // units per TTL that were requested at this process
	max        int64   // maximum units of a lease; it decreases while others need units
	measuredAt int64   // when the demand was measured
	requested  int64   // units that were requested between then and the last timer
	callTime   float64 // average time of a call, in ns
}

// measureDemand updates the demand after the given units were requested since the last
// measurement.
func (z *sizing) measureDemand(now, requested, ttl, minCallInterval int64) {
	elapsed := max(now-z.measuredAt, minCallInterval/4, 1)
	z.demand = (z.demand + float64(requested)*float64(ttl)/float64(elapsed)) / 2
	z.measuredAt, z.requested = now, 0
}

// idle reports whether fewer than two units were requested since it was called before.
// requested are the units since the last measurement of the demand.
func (z *sizing) idle(requested int64) bool {
	since := requested - z.requested
	z.requested = requested
	return since < 2
}

// target returns the number of units that the process should have.
func (z *sizing) target() int64 { return int64(min(max(math.Ceil(z.demand), 1), float64(z.max))) }

// adjustMax changes max after a reply. If the leases of all processes have used up the
// maximum, each process halves its own maximum, so that the others can take a part.
func (z *sizing) adjustMax(usedUp bool, renewalMax int64) {
	if usedUp {
		z.max = max(z.max/2, 1)
		return
	}
	z.max = min(z.max+z.max/8+1, renewalMax)
}

// renewBelow returns the number of units at which a renewal of a lease starts. The
// process needs that many units during two calls. It is at least an eighth and at most
// half of the units.
func (z *sizing) renewBelow(units, ttl int64) int64 {
	need := int64(min(z.demand*2*z.callTime/float64(ttl), math.MaxInt32))
	return min(max(need, units/8), units/2)
}

// measureCall updates the average time of a call. The latest call has a weight of 1/8.
func (z *sizing) measureCall(ns int64) {
	if z.callTime == 0 {
		z.callTime = float64(ns)
	}
	z.callTime += (float64(ns) - z.callTime) / 8
}

// jitter returns a random time from 0 to below longest, in ns.
func jitter(longest int64) int64 { return rand.Int64N(max(longest, 1)) }
