package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// storeLog says once when the store goes away, and once when it is back.
type storeLog struct{ log *slog.Logger }

// ObserveStore logs a change.
func (s storeLog) ObserveStore(e headgate.StoreEvent) {
	if e.Away {
		s.log.Warn("the store is away", "trouble", e.Trouble.String(), "cause", e.Err)
		return
	}
	s.log.Info("the store is back")
}

// inBackground runs work on a goroutine of its own; what it returns ends it, and waits for that.
func inBackground(ctx context.Context, work func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); work(ctx) }()
	return func() { cancel(); <-done }
}

// awakenings are how often the store is asked at the start: often enough for it to count as away if it never answers.
const awakenings = 10

// awaken has the store connect before the first request needs it, and be known to be away if it is.
func awaken(ctx context.Context, e *engine.Engine) {
	for range awakenings {
		if e.Health(ctx) == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(storePause):
		}
	}
}

// storePause is the time between two questions to a store that did not answer.
const storePause = 100 * time.Millisecond
