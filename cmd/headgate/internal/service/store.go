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
	"github.com/headgate/headgate/memstore"
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

// ObserveFolder logs that the state could not be saved, or that this works again.
func (s storeLog) ObserveFolder(e memstore.FolderEvent) {
	switch e.Kind {
	case memstore.SaveFailed:
		s.log.Error("saving the state failed; decisions go on in memory", "error", e.Err)
	case memstore.SaveRecovered:
		s.log.Info("state saved again", "unsaved_for", e.Since.Round(time.Millisecond))
	case memstore.ImageFailed:
		s.log.Warn("writing a new state file failed; the current file grows", "error", e.Err)
	}
}

// logRestored logs what the memory store has read from its folder.
func logRestored(log *slog.Logger, store headgate.Store) {
	memory, ok := store.(*memstore.Store)
	if !ok || memory.Folder().Path == "" {
		return
	}
	r, path := memory.Folder().Restored, memory.Folder().Path
	switch {
	case !r.Found:
		log.Info("state folder is new; every key is unused", "folder", path)
		return
	case r.Clean:
		log.Info("state restored", "folder", path, "keys", r.Keys, "duration", r.Duration.Round(time.Millisecond))
	default:
		log.Warn("state restored after an irregular stop; decisions since the last sync are forgotten",
			"folder", path, "keys", r.Keys, "duration", r.Duration.Round(time.Millisecond), "cut_bytes", r.CutBytes)
	}
	if r.ClockBack > 0 {
		log.Warn("clock went back since the last sync; keys in use are denied for longer", "back", r.ClockBack.Round(time.Millisecond))
	}
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

// ObserveFolder notifies all observers of folders in order.
func (all storeObservers) ObserveFolder(e memstore.FolderEvent) {
	for _, o := range all {
		if folder, ok := o.(storeopen.FolderObserver); ok {
			folder.ObserveFolder(e)
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
