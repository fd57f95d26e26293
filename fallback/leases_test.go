package fallback_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
)

// leaseFaults is a faulty store whose leases fail with its fault.
type leaseFaults struct{ *faultyStore }

func (s leaseFaults) ApplyLease(ctx context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	if err := s.checkFault(ctx, op.Key); err != nil {
		return headgate.LeaseResult{}, err
	}
	op.Bound = op.Bound.(*faultyBound).Bound
	return s.Store.ApplyLease(ctx, now, op)
}

// storeWithoutLeases hides the leases of a store.
type storeWithoutLeases struct{ headgate.HoldStore }

// ApplyLease is executed by the inner store. While that is unavailable, it returns the
// error in every failure mode, and the breaker opens.
func TestApplyLease(t *testing.T) {
	t.Parallel()
	inner := leaseFaults{newFaultyStore()}
	s, err := fallback.New(inner, &fallback.Options{Failures: 1, Budget: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rule := headgate.Rule{Scope: "s", Limit: headgate.MustParseLimit("100/1h"), OnStoreError: headgate.FailOpen}
	b, err := s.Bind(rule)
	if err != nil {
		t.Fatal(err)
	}
	op := headgate.LeaseOp{Bound: b, Key: "key", ID: headgate.NewHoldID(), Want: 5, Max: 10, TTL: time.Minute}
	for range 2 { // the second call is a repeated one
		if r, err := s.ApplyLease(background, headgate.StoreClock, op); err != nil || r.Units != 5 || r.Remaining != 95 {
			t.Errorf("got %+v, %v want 5 units", r, err)
		}
	}
	down := &headgate.StoreError{Store: "test", Reason: headgate.ReasonUnreachable}
	inner.set(func(context.Context, string) error { return down })
	for range 3 {
		if _, err := s.ApplyLease(background, headgate.StoreClock, op); !errors.Is(err, headgate.ErrStoreUnavailable) {
			t.Errorf("while the store is unavailable: got %v want ErrStoreUnavailable", err)
		}
	}
	if d, err := b.Apply(background, headgate.StoreClock, "key", headgate.Take, 1); err != nil || d.Degraded == headgate.ReasonNone {
		t.Errorf("got %+v, %v want a decision of the failure mode", d, err)
	}
	s.Close()
	if _, err := s.ApplyLease(background, headgate.StoreClock, op); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("after Close: got %v want ErrClosed", err)
	}
}

func TestApplyLeaseUnsupported(t *testing.T) {
	t.Parallel()
	s, err := fallback.New(storeWithoutLeases{memstore.New(nil)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := s.Bind(headgate.Rule{Scope: "s", Limit: headgate.MustParseLimit("100/1h")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ApplyLease(background, headgate.StoreClock, headgate.LeaseOp{Bound: b}); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("a store without leases: got %v want ErrUnsupported", err)
	}
	other := memstore.New(nil)
	defer other.Close()
	b, err = other.Bind(headgate.Rule{Scope: "s", Limit: headgate.MustParseLimit("100/1h")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ApplyLease(background, headgate.StoreClock, headgate.LeaseOp{Bound: b}); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("a Bound of another store: got %v want ErrInvalidPolicy", err)
	}
}
