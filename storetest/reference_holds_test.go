package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// naiveHolds adds holds to a store in the way that rate limiters without exact holds do
// it: a hold is a take, and a commit refunds the difference.
type naiveHolds struct {
	*reference
	mu    sync.Mutex
	holds map[headgate.HoldID]int64
}

// Bind counts slots in a fixed window: a hold that expires releases nothing.
func (s *naiveHolds) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if rule.Algorithm.OnlyHolds() {
		rule.Algorithm, rule.Limit = headgate.FixedWindow, headgate.Limit{Rate: rule.Limit.Rate, Period: headgate.MaxPeriod}
	}
	return s.reference.Bind(rule)
}

func (s *naiveHolds) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, _ time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	for i, op := range ops {
		plain, cost := headgate.Take, op.Cost
		switch verb {
		case headgate.CommitHold:
			plain, cost = headgate.Refund, max(0, s.held(op.ID)-op.Cost)
		case headgate.ExtendHold:
			plain = headgate.Peek
		case headgate.TakeUpTo:
			d, _ := op.Bound.Apply(ctx, now, op.Key, headgate.Peek, 0)
			cost = min(cost, d.Remaining)
		}
		d, err := op.Bound.Apply(ctx, now, op.Key, plain, cost)
		if err != nil {
			return 0, err
		}
		results[i] = headgate.HoldResult{Decision: d, Granted: cost}
		if verb == headgate.OpenHold && d.Allowed {
			s.open(op.ID, cost)
		}
	}
	return now, nil
}

func (s *naiveHolds) open(id headgate.HoldID, units int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds[id] = units
}

// held returns the units of a hold, or 0 if the store has the fault holdsLeak.
func (s *naiveHolds) held(id headgate.HoldID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(holdsLeak) {
		return 0
	}
	return s.holds[id]
}
