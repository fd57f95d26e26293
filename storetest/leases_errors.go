package storetest

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// checkLeaseErrors tests the errors of leases, and what a lease does at the maximum
// number of open holds.
func checkLeaseErrors(ts *tester, a headgate.Algorithm) {
	if !ts.hasLeases(a) {
		return
	}
	s := ts.store.(headgate.LeaseStore)
	bound, err := s.Bind(headgate.Rule{Scope: ts.name(), Algorithm: a, Limit: headgate.MustParseLimit("10/1h"), Holds: headgate.HoldSettings{MaxOpen: 1}})
	ts.mustf(err, "bind")
	lease := func(op headgate.LeaseOp, units, remaining int64) {
		op.Bound, op.Key, op.TTL = bound, "key", time.Minute
		got, err := s.ApplyLease(background, start, op)
		if ts.mustf(err, "%s: lease %+v", a, op); got.Units != units || got.Remaining != remaining {
			ts.failf("%s: lease %+v: got %d units, %s; want %d, and %d remaining", a, op, got.Units, formatDecision(got.Decision), units, remaining)
		}
	}
	lease(headgate.LeaseOp{ID: idOf("first"), Want: 4, Max: 5}, 4, 6)
	lease(headgate.LeaseOp{ID: idOf("second"), Want: 1, Max: 5}, 0, 6)
	for _, spent := range []int64{-1, 5} {
		op := headgate.LeaseOp{Bound: bound, Key: "key", Previous: idOf("first"), Spent: spent, ID: idOf("third"), TTL: time.Minute}
		if _, err := s.ApplyLease(background, start, op); !errors.Is(err, headgate.ErrInvalidHold) {
			ts.failf("%s: %d of 4 units were spent: got error %v want ErrInvalidHold", a, spent, err)
		}
	}
	lease(headgate.LeaseOp{Previous: idOf("first"), Spent: 1, ID: idOf("fourth"), Want: 9, Max: 5}, 5, 4)
	lease(headgate.LeaseOp{Previous: idOf("fourth")}, 0, 9)
}
