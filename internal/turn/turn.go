// Package turn holds what every caller of a limit with a queue shares: waiting for a
// request's turn, the context of store calls after the request, and the rule for what a
// limit took from a request that does not need it. It imports the standard library
// only, so that the root package can use it; package admission applies it to stores.
package turn

import (
	"context"
	"time"
)

// StoreTimeout bounds the store calls that are made for a request after it was decided:
// its client waits for them, or has left.
const StoreTimeout = time.Second

// Detached returns a context for store calls after the request: it keeps the values of
// ctx, does not end with ctx, and ends after [StoreTimeout].
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), StoreTimeout)
}

// Await blocks until due and returns nil, or returns an error as soon as the turn
// cannot be used: immediately with [context.DeadlineExceeded] if the deadline of ctx is
// before due, else with the error of ctx when ctx ends. If ctx ends when the turn is
// due, Await returns nil: the turn can no longer be given to another request, so it is
// used.
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
