// Package turn has what all callers of limits with a queue share: waiting until a
// request is due, and the context of store calls after the request. It imports only the
// standard library, so that the root package can use it.
package turn

import (
	"context"
	"time"
)

// StoreTimeout is the timeout of the store calls that are made for a request after its
// decision, because the client waits for these calls or has already left.
const StoreTimeout = time.Second

// Detached returns a context for store calls after a request. It has the values of ctx,
// is not canceled with ctx, and ends after [StoreTimeout].
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), StoreTimeout)
}

// Await blocks until due and returns nil. If the deadline of ctx is before due, it
// returns [context.DeadlineExceeded] immediately. If ctx ends before due, it returns
// the error of ctx. If ctx ends at due or later, it returns nil, because the units can
// no longer be granted to another request.
func Await(ctx context.Context, due time.Time) error {
	delay := time.Until(due)
	if delay <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(due) {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		if !time.Now().Before(due) {
			return nil
		}
		return ctx.Err()
	}
}
