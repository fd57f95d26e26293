package service

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/activity"
	"github.com/headgate/headgate/cmd/headgate/internal/bans"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyxds"
	"github.com/headgate/headgate/cmd/headgate/internal/events"
	"github.com/headgate/headgate/cmd/headgate/internal/metrics"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/cmd/headgate/internal/tracing"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

// observers count and log the decisions of the service.
type observers struct {
	*metrics.Metrics
	denials  *metrics.Denials
	outages  *activity.Outages
	timeline *activity.Timeline
	bans     *bans.Watcher
	tracer   *tracing.Tracer                 // nil if requests are not traced
	reporter atomic.Pointer[events.Reporter] // nil if no events are configured
}

func newObservers(c *config.Config, version string, log *slog.Logger, droppedLines func() uint64) *observers {
	denials := metrics.NewDenials(&metrics.DenialOptions{
		Log: log, PerSecond: c.Log.Denials, LogKeys: c.Log.Keys, TopKeys: c.Admin.Keys, Secret: string(c.Log.HashSecret),
	})
	o := &observers{denials: denials, outages: &activity.Outages{}}
	o.Metrics = metrics.New(&metrics.Options{
		Version: version, Store: storeopen.Name(string(c.Store)), Networked: storeopen.Networked(string(c.Store)), Denials: denials, Wrap: o.wrap,
	})
	o.Log(droppedLines)
	o.timeline = o.NewTimeline(time.Now())
	o.bans = bans.New(&bans.Options{Log: log, Hash: o.denials.LogText, Begun: o.begun})
	o.Bans(func() metrics.BanState { return metrics.BanState(o.bans.Stats()) })
	return o
}

// begun reports a ban.
func (o *observers) begun(b bans.Ban) {
	if t := o.reporter.Load(); t != nil {
		t.Begun(b)
	}
}

// ObserveStore counts and reports an event of the store.
func (o *observers) ObserveStore(e headgate.StoreEvent) {
	o.Metrics.ObserveStore(e)
	if t := o.reporter.Load(); t != nil {
		t.ObserveStore(e)
	}
}

// startEvents begins to report events, if any are configured.
func (o *observers) startEvents(c *config.Events, store headgate.Store, log *slog.Logger) error {
	if !c.Log && c.Webhook == "" {
		return nil
	}
	holds, ok := store.(headgate.HoldStore)
	if !ok {
		return fmt.Errorf("events: %w: the store does not support holds", headgate.ErrUnsupported)
	}
	opts := &events.Options{
		Store: holds, Log: log, LogEvents: c.Log, Keys: events.Keys(c.Keys), Hash: o.denials.Hash, Interval: c.Interval, Queue: c.Queue,
	}
	if c.Webhook != "" {
		var err error
		if opts.Webhook, err = events.NewWebhook(&events.WebhookOptions{
			URL: string(c.Webhook), Secrets: c.Secrets(), Timeout: c.Timeout, Attempts: c.Attempts,
		}); err != nil {
			return err
		}
	}
	reporter := events.New(opts)
	o.reporter.Store(reporter)
	o.Events(func() metrics.EventState { return metrics.EventState(reporter.Stats()) })
	return nil
}

// eventsFlushTime is how long endEvents waits for the events that are not reported.
const eventsFlushTime = 2 * time.Second

// endEvents reports the queued events, for at most eventsFlushTime.
func (o *observers) endEvents() {
	if t := o.reporter.Swap(nil); t != nil {
		ctx, cancel := context.WithTimeout(context.Background(), eventsFlushTime)
		defer cancel()
		t.Close(ctx)
	}
}

// wrap returns an observer that also counts denials for bans, reports events and adds
// decisions to spans, if requests are traced.
func (o *observers) wrap(next engine.Observer) engine.Observer {
	next = &apiObserver{next, o}
	if o.tracer == nil {
		return next
	}
	return o.tracer.Observer(next)
}

// apiObserver observes the requests of one API for all that need them.
type apiObserver struct {
	engine.Observer
	all *observers
}

// Observe implements [engine.Observer].
func (a *apiObserver) Observe(e *engine.Event) {
	a.Observer.Observe(e)
	a.all.bans.Observe(e)
	if t := a.all.reporter.Load(); t != nil {
		t.Observe(e)
	}
}

// report adds the state of the store, of the configuration and of Envoy's rules to the
// metrics. It adds the state of the control plane unless client is nil.
func (o *observers) report(store headgate.Store, live *config.Live, rls *rlsapi.Handler, client *envoyxds.Client, milliseconds bool) {
	if memory, ok := store.(*memstore.Store); ok {
		o.Store(func() metrics.StoreState {
			stats := memory.Stats()
			return metrics.StoreState{Keys: stats.Keys, Bytes: stats.Bytes, Overflowed: stats.Overflowed}
		})
		if memory.Folder().Path != "" {
			o.Folder(func() metrics.FolderState {
				f := memory.Folder()
				return metrics.FolderState{Bytes: f.Bytes, LastSync: f.LastSync, Syncs: f.Syncs, Failures: f.Failures, Failing: f.Err != nil}
			})
		}
	}
	if leased, ok := store.(*lease.Store); ok {
		o.Leases(func() metrics.LeaseState {
			s := leased.Stats()
			return metrics.LeaseState{
				Keys: s.Keys, Units: s.UnspentUnits, Stranded: s.Stranded, Memory: s.Decisions, Calls: s.Calls, Failed: s.Failed, Waits: s.Waited,
			}
		})
	}
	o.Config(func() metrics.ConfigState {
		now := live.Status()
		return metrics.ConfigState{Generation: now.Generation, Since: now.Since, Loads: now.Loads, Refused: now.Refused, Rejected: now.Err != nil}
	})
	o.Envoy(func() metrics.EnvoyState { return envoyState(rls.Stats(), milliseconds) })
	if client != nil {
		o.XDS(func() metrics.XDSState { return metrics.XDSState(client.State()) })
	}
}

// reportOverrides adds the state of the overrides in the store to the metrics.
func (o *observers) reportOverrides(live *overrides.Live) {
	o.Overrides(func() metrics.OverridesState {
		s := live.Status()
		return metrics.OverridesState{
			Entries: s.Entries, Ignored: s.Ignored, Revision: s.Revision, Checked: s.Checked, Polls: s.Polls, Failed: s.Failed, Restored: s.Restored,
		}
	})
}

func envoyState(counted rlsapi.Stats, milliseconds bool) metrics.EnvoyState {
	state := metrics.EnvoyState{
		Rules: make(map[string]metrics.EnvoyCounts, len(counted.Rules)), DomainNotFound: counted.DomainNotFound,
		ConfigLoads: counted.ConfigLoads, ConfigErrors: counted.ConfigErrors, StoreErrors: counted.StoreErrors,
		ServiceErrors: counted.ServiceErrors, GlobalShadow: counted.GlobalShadow, Times: metrics.EnvoyTimes(counted.Times),
		Milliseconds: milliseconds, Quotas: metrics.EnvoyQuotas(counted.Quotas),
	}
	for path, c := range counted.Rules {
		state.Rules[path] = metrics.EnvoyCounts(c)
	}
	return state
}
