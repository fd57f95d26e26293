package service

import "context"

// inBackground runs work on a goroutine of its own. end cancels the context of work and waits until work returns.
func inBackground(ctx context.Context, work func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); work(ctx) }()
	return func() { cancel(); <-done }
}
