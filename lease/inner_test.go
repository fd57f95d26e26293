package lease_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

// Units that a client of the process takes are not available to the store's own leases.
func TestApplyLeaseOfClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		leased := bind(t, s, ruleOf("1000/1h"))
		warm(t, leased, "key")
		before := remaining(t, leased, "key")
		op := headgate.LeaseOp{Bound: leased, Key: "key", ID: headgate.NewHoldID(), Want: 1000, Max: 1000, TTL: time.Minute}
		r, err := s.ApplyLease(ctx, headgate.StoreClock, op)
		if err != nil || r.Units == 0 || r.Units >= before {
			t.Fatalf("got %+v, error %v want units, fewer than %d", r, err, before)
		}
		allowed := int64(0)
		for range 1000 {
			if d, err := leased.Apply(ctx, headgate.StoreClock, "key", headgate.Take, 1); err != nil {
				t.Fatal(err)
			} else if d.Allowed {
				allowed++
			}
		}
		if allowed > before-r.Units {
			t.Errorf("%d requests were allowed, and %d units are on lease; %d units remained", allowed, r.Units, before)
		}
		op.Bound = bind(t, open(t, nil, nil), ruleOf("1000/1h"))
		if _, err := s.ApplyLease(ctx, headgate.StoreClock, op); !errors.Is(err, headgate.ErrInvalidPolicy) {
			t.Errorf("a Bound of another store: got error %v want ErrInvalidPolicy", err)
		}
	})
}
