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
// first, Await cancels the request's place in the queue, if it has no other limit, and
// returns the error of ctx. All other charges stay. If the deadline of ctx is before the
// end of the delay, Await does so immediately and returns [context.DeadlineExceeded]. The
// observer receives an event with the verb Refund if a reservation was cancelled.
func (s *ActiveConfig) Await(ctx context.Context, a *Answer) error {
	defer a.clearKeys()
	err := a.enforced.Await(ctx, a.Delay)
	if err != nil {
		s.cancel(ctx, a)
	}
	return err
}

// cancel cancels the reservation of a request that leaves its queue.
func (s *ActiveConfig) cancel(ctx context.Context, a *Answer) {
	ctx, done := turn.Detached(ctx)
	defer done()
	if s.observer != nil {
		s.begin(a)
	}
	cancelled, _, err := a.enforced.CancelPlace(ctx, headgate.StoreClock)
	if s.observer != nil && cancelled {
		s.notify(ctx, Refund, nil, a, err)
	}
}
