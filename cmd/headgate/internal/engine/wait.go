package engine

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/turn"
)

// Admit takes for all checks or for none, as [ActiveConfig.Decide] does with
// [headgate.Take], for a request that can wait for its turn in a queue. If the answer has
// a Delay, the caller must call [ActiveConfig.Await] next, with the same answer; the
// answer keeps the keys until then.
func (s *ActiveConfig) Admit(ctx context.Context, checks []Check, a *Answer) error {
	a.mayWait = true
	defer func() { a.mayWait = false }()
	return s.Decide(ctx, headgate.Take, checks, a)
}

// Await blocks until the turn of a request that was admitted with a Delay. If the request
// leaves before, Await cancels its place in the queue, refunds its other charges unless
// that would grant them twice, and returns an error: that of ctx, or
// [context.DeadlineExceeded] immediately if the deadline of ctx is before the turn. The
// observer receives a refund if a charge was refunded or its reservation cancelled, and
// nothing if all charges stay spent.
func (s *ActiveConfig) Await(ctx context.Context, a *Answer) error {
	defer a.clearKeys()
	err := a.enforced.Await(ctx, a.Delay)
	if err != nil {
		s.cancel(ctx, a)
	}
	return err
}

// cancel releases the charges of a request that does not proceed.
func (s *ActiveConfig) cancel(ctx context.Context, a *Answer) {
	ctx, done := turn.Detached(ctx)
	defer done()
	if s.observer != nil {
		s.begin(a)
	}
	released, err := a.enforced.release(ctx, 0, len(a.enforced.Ops))
	for i := range a.Shadows {
		if w := &a.Shadows[i]; w.Decision.Allowed {
			_, _ = a.shadowed.release(ctx, w.first, w.end) // an error in shadow mode affects no request
		}
	}
	if s.observer != nil && released {
		s.notify(headgate.Refund, nil, a, err)
	}
}

// release releases the charges with indexes from up to to, to excluded. It reports
// whether any charge was refunded or cancelled in the store, and the last error.
func (c *charges) release(ctx context.Context, from, to int) (released bool, failed error) {
	for i := from; i < to; i++ {
		did, _, err := c.Release(ctx, headgate.StoreClock, i, c.Ops[i].Cost)
		if released = released || did != turn.Keep; err != nil {
			failed = err
		}
	}
	return released, failed
}
