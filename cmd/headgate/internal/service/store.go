package service

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/cmd/headgate/internal/tracing"
	"github.com/headgate/headgate/fallback"
)

// LogStoreEvents returns an observer that logs one line when a store, or one of its
// nodes, becomes unavailable, and one when it has recovered.
func LogStoreEvents(log *slog.Logger) headgate.StoreObserver {
	return storeLog{fallback.LogEvents(log), log}
}

// storeLog logs store events, and the events of clocks.
type storeLog struct {
	headgate.StoreObserver
	log *slog.Logger
}

// ObserveClockSetBack logs that the clock of a server went back.
func (s storeLog) ObserveClockSetBack(back time.Duration) {
	s.log.Warn("clock of the store went back; keys in use are denied for longer", "back", back.Round(time.Millisecond))
}

// ObserveClockSkew logs that the local clock differs from the clock of another process.
func (s storeLog) ObserveClockSkew(skew time.Duration) {
	if skew < 0 {
		s.log.Warn("local clock is behind the clock of another process of the store", "behind", (-skew).Round(time.Millisecond))
		return
	}
	s.log.Warn("local clock is ahead of the clock of another process of the store", "ahead", skew.Round(time.Millisecond))
}

// storeObservers is a list of observers that receives every event as one observer.
type storeObservers []headgate.StoreObserver

// ObserveStore notifies all observers in order.
func (all storeObservers) ObserveStore(e headgate.StoreEvent) {
	for _, o := range all {
		o.ObserveStore(e)
	}
}

// ObserveClockSetBack notifies all observers of clocks in order.
func (all storeObservers) ObserveClockSetBack(back time.Duration) {
	for _, o := range all {
		if clock, ok := o.(storeopen.ClockObserver); ok {
			clock.ObserveClockSetBack(back)
		}
	}
}

// ObserveClockSkew notifies all observers of clocks in order.
func (all storeObservers) ObserveClockSkew(skew time.Duration) {
	for _, o := range all {
		if clock, ok := o.(storeopen.ClockObserver); ok {
			clock.ObserveClockSkew(skew)
		}
	}
}

// openStore opens the configured store. An error contains the source of the setting.
func openStore(c *config.Config, tracer *tracing.Tracer, observers ...headgate.StoreObserver) (headgate.Store, error) {
	var wrap func(headgate.Store) headgate.Store
	if tracer != nil {
		wrap = func(inner headgate.Store) headgate.Store { return tracer.Store(inner, storeSystem(c)) }
	}
	store, err := storeopen.Open(string(c.Store), &storeopen.Options{
		Wrap:   wrap,
		Budget: c.StoreBudget, Observer: storeObservers(observers),
		Instances: max(1, c.Instances), // for a policy with the local fallback, after a reload too
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, c.Origins["store"])
	}
	return store, nil
}

// storeSystem returns the name of the store in spans: redis or memcached.
func storeSystem(c *config.Config) string {
	name, _, _ := strings.Cut(storeopen.Name(string(c.Store)), "+")
	return strings.Replace(name, "rediss", "redis", 1)
}

const (
	warmUpTries = 10                     // often enough for the circuit breaker to open if the store never answers
	warmUpPause = 100 * time.Millisecond // after a try that failed
)

// WarmUp connects to the store of e in the background, so that the first request finds
// an open connection, or an open circuit breaker. The returned function stops the
// attempts and waits for the goroutine.
func WarmUp(ctx context.Context, e *engine.Engine) (end func()) {
	_, end = warmUp(ctx, e)
	return end
}

// warmUp is like [WarmUp]; the channel receives the result of the first attempt.
func warmUp(ctx context.Context, e *engine.Engine) (first <-chan error, end func()) {
	result := make(chan error, 1)
	return result, inBackground(ctx, func(ctx context.Context) {
		for try := range warmUpTries {
			err := e.Health(ctx)
			if try == 0 {
				result <- err
			}
			if err == nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(warmUpPause):
			}
		}
	})
}
