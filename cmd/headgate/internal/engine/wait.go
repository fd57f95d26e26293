package engine

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/turn"
)

// Admit takes units for all checks or for none, like [ActiveConfig.Decide] with
// [headgate.Take]. Use it for a request that can wait in a queue. If the answer has a
// Delay, the caller must next call [ActiveConfig.Await] with the same answer, which
// keeps the keys until then.
func (s *ActiveConfig) Admit(ctx context.Context, checks []Check, a *Answer) error {
	a.mayWait = true
	defer func() { a.mayWait = false }()
	return s.Decide(ctx, headgate.Take, checks, a)
}

// Await blocks for the delay of a request that Admit allowed with a Delay. If ctx ends
// first, Await cancels the request's place in the queue, refunds its other charges
// unless a refund would grant units twice, and returns the error of ctx. If the
// deadline of ctx is before the end of the delay, it does so immediately and returns
// [context.DeadlineExceeded]. The observer receives an event with the verb Refund if a
// charge was refunded or a reservation was cancelled, and no event if all charges stay
// spent.
func (s *ActiveConfig) Await(ctx context.Context, a *Answer) error {
	defer a.clearKeys()
	err := a.enforced.Await(ctx, a.Delay)
	if err != nil {
		s.cancel(ctx, a)
	}
	return err
}

// cancel refunds the charges of a request that leaves its queue, and cancels its
// reservations.
func (s *ActiveConfig) cancel(ctx context.Context, a *Answer) {
	ctx, done := turn.Detached(ctx)
	defer done()
	if s.observer != nil {
		s.begin(a)
	}
	released, err := a.enforced.release(ctx, 0, len(a.enforced.Ops))
	for i := range a.Shadows {
		if w := &a.Shadows[i]; w.Decision.Allowed {
			_, _ = a.shadowed.release(ctx, w.first, w.end) // an error in shadow mode must not affect the request
		}
	}
	if s.observer != nil && released {
		s.notify(ctx, Refund, nil, a, err)
	}
}

// release refunds or cancels the charges with the indexes from, …, to-1. It reports
// whether any charge was refunded or cancelled in the store. failed is the last error.
func (c *charges) release(ctx context.Context, from, to int) (released bool, failed error) {
	for i := from; i < to; i++ {
		did, _, err := c.Release(ctx, headgate.StoreClock, i)
		if released = released || did != turn.Keep; err != nil {
			failed = err
		}
	}
	return released, failed
}
