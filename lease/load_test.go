package lease_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// withoutFaults returns a simulation of eight nodes without faults.
func withoutFaults(a headgate.Algorithm, load func(*rand.Rand, int) float64) simulation {
	s := newSimulation(a, 1)
	s.faults, s.nodes, s.load, s.duration = false, 8, load, 5*time.Second
	s.lease = headgate.LeaseSettings{Share: headgate.DefaultLeaseShare}
	return s
}

// Eight nodes with three times the load of the limit allow as many units as the limit
// does, and not more.
func TestCrowdAtLimit(t *testing.T) {
	t.Parallel()
	for a := range leased {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			s := withoutFaults(a, nil)
			rate := perSecond(s.judged())
			s.load = func(*rand.Rand, int) float64 { return 3 * rate / 8 / 1.25 } // the mean cost is 1.25
			o := s.check(t)
			want := 0.99 * rate * s.duration.Seconds()
			if a == headgate.SlidingLog { // units count until a period after they were reported
				want *= 0.99
			}
			if got := float64(total(o.log)); got < want {
				t.Errorf("%.0f units were allowed, want at least %.0f", got, want)
			}
			if share := float64(o.fromMemory) / float64(o.asked); share < 0.98 {
				t.Errorf("%.1f%% of the decisions were made in memory, want at least 98%%", share*100)
			}
		})
	}
}

// Eight nodes with very different loads, together half of the limit, allow nearly
// everything.
func TestLowLoad(t *testing.T) {
	t.Parallel()
	shares := []float64{0.5, 0.25, 0.12, 0.06, 0.03, 0.02, 0.01, 0.01}
	for a := range leased {
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			s := withoutFaults(a, nil)
			rate := perSecond(s.judged())
			s.load = func(_ *rand.Rand, i int) float64 { return rate / 2 * shares[i] / 1.25 }
			o := s.check(t)
			if share := float64(o.allowed) / float64(o.asked); share < 0.999 {
				t.Errorf("%d of %d requests were allowed, want at least 99.9%%", o.allowed, o.asked)
			}
		})
	}
}
