package engine

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/turn"
)

// Admit takes for all checks or for none, as [Snapshot.Decide] does with [headgate.Take], for a request that is held for its turn. If
// the answer has a Delay the request must call [Snapshot.Await] next, with the same answer; the answer keeps the keys until then.
func (s *ActiveConfig) Admit(ctx context.Context, checks []Check, a *Answer) error {
	a.admits = true
	defer func() { a.admits = false }()
	return s.Decide(ctx, headgate.Take, checks, a)
}

// Await blocks until the turn of a request that was admitted with a Delay. If the request
// leaves before, Await cancels its place in the queue, refunds its other charges unless that
// would grant them twice, and returns an error: that of ctx, or [context.DeadlineExceeded]
// immediately if the deadline of ctx is before the turn. The observer receives a refund if a
// charge was refunded or its reservation cancelled, and nothing if all charges stay spent.
func (s *ActiveConfig) Await(ctx context.Context, a *Answer) error {
	defer a.forgetKeys()
	err := a.counted.Await(ctx, a.Delay)
	if err != nil {
		s.leave(ctx, a)
	}
	return err
}

// leave releases what a request took that does not go ahead.
func (s *ActiveConfig) leave(ctx context.Context, a *Answer) {
	ctx, done := turn.Detached(ctx)
	defer done()
	if s.observer != nil {
		s.begin(a)
	}
	released, err := a.counted.release(ctx, 0, len(a.counted.Ops))
	for i := range a.Shadows {
		if w := &a.Shadows[i]; w.Decision.Allowed {
			_, _ = a.watched.release(ctx, w.first, w.end) // what a shadow can't refund concerns no request
		}
	}
	if s.observer != nil && released {
		s.tell(headgate.Refund, a, err)
	}
}

// release releases the charges from one place to another. It reports whether the store was
// asked to refund or cancel any, and the last error.
func (c *charges) release(ctx context.Context, from, to int) (released bool, failed error) {
	for i := from; i < to; i++ {
		did, _, err := c.Release(ctx, headgate.StoreClock, i, c.Ops[i].Cost)
		if released = released || did != turn.Keep; err != nil {
			failed = err
		}
	}
	return released, failed
}
