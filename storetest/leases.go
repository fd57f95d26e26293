package storetest

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
)

func leaseChecks() []check {
	return []check{
		{name: "leases equal model", rule: "units on lease are spent for all others and do not refill; decisions, leases and deadlines equal those of the model", perAlgorithm: checkLeases},
		{name: "lease bound", rule: "in every span, the units taken at the store and spent under leases are at most the bound of the algorithm", perAlgorithm: checkLeaseBound},
		{name: "lease errors", rule: "a lease that is not possible is a typed error, and nothing changes", perAlgorithm: checkLeaseErrors},
	}
}

// hasLeases reports whether the store has leases under the algorithm a. A store with
// leases must return [headgate.ErrUnsupported] if the algorithm has none.
func (ts *tester) hasLeases(a headgate.Algorithm) bool {
	s, ok := ts.store.(headgate.LeaseStore)
	if !ok {
		return false
	}
	if a.CanLease() {
		return true
	}
	bound, err := s.Bind(headgate.Rule{Scope: ts.name(), Algorithm: a, Limit: headgate.MustParseLimit("5/1h")})
	ts.mustf(err, "bind")
	_, err = s.ApplyLease(background, start, headgate.LeaseOp{Bound: bound, Key: "key", ID: headgate.NewHoldID(), Want: 1, Max: 1, TTL: time.Second})
	if !errors.Is(err, headgate.ErrUnsupported) {
		ts.failf("%s: lease: got error %v want ErrUnsupported", a, err)
	}
	return false
}
