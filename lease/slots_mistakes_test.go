package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// forgetfulStore does not execute extensions.
type forgetfulStore struct{ headgate.LeaseStore }

func (s *forgetfulStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration,
	ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if verb == headgate.ExtendHold {
		return headgate.InstantOf(time.Now()), nil
	}
	return s.LeaseStore.ApplyHolds(ctx, now, verb, ttl, ops, results)
}

// aheadStore reports times of its clock that are 5 ms too late.
type aheadStore struct{ headgate.LeaseStore }

func (s *aheadStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration,
	ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	at, err := s.LeaseStore.ApplyHolds(ctx, now, verb, ttl, ops, results)
	return at + headgate.Instant((5 * time.Millisecond).Microseconds()), err
}

// The simulation finds deadlines that are reported too late.
func TestSlotSimulationFindsLateDeadlines(t *testing.T) {
	t.Parallel()
	s := newSlotSimulation(2)
	s.duration = time.Second
	s.plant = func(inner headgate.LeaseStore) headgate.LeaseStore { return &aheadStore{inner} }
	if o := s.run(t); o.late <= 0 {
		t.Errorf("the latest deadline is %v after the end of its hold", o.late)
	}
}

// The simulation finds chunks that the store has not extended.
func TestSlotSimulationFindsMistake(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		s := newSlotSimulation(seed)
		s.plant = func(inner headgate.LeaseStore) headgate.LeaseStore { return &forgetfulStore{inner} }
		if mostHeld(s.run(t).spans) > int64(s.slots) {
			return
		}
	}
	t.Error("no run exceeded the limit")
}
