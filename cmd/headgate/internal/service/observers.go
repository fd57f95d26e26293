package service

import (
	"log/slog"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyxds"
	"github.com/headgate/headgate/cmd/headgate/internal/metrics"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/cmd/headgate/internal/tracing"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

// observers count and log the decisions of the service.
type observers struct {
	*metrics.Metrics
	denials *metrics.Denials
	tracer  *tracing.Tracer // nil if requests are not traced
}

func newObservers(c *config.Config, version string, log *slog.Logger, droppedLines func() uint64) *observers {
	denials := metrics.NewDenials(&metrics.DenialOptions{
		Log: log, PerSecond: c.Log.Denials, LogKeys: c.Log.Keys, TopKeys: c.Admin.Keys, Secret: string(c.Log.HashSecret),
	})
	o := &observers{denials: denials}
	o.Metrics = metrics.New(&metrics.Options{
		Version: version, Store: storeopen.Name(string(c.Store)), Networked: storeopen.Networked(string(c.Store)), Denials: denials, Wrap: o.traced,
	})
	o.Log(droppedLines)
	return o
}

// traced returns an observer that also adds decisions to spans, if requests are traced.
func (o *observers) traced(next engine.Observer) engine.Observer {
	if o.tracer == nil {
		return next
	}
	return o.tracer.Observer(next)
}

// report adds the state of the store, of the configuration and of Envoy's rules to the
// metrics. It adds the state of the control plane unless client is nil.
func (o *observers) report(store headgate.Store, live *config.Live, rls *rlsapi.Handler, client *envoyxds.Client, milliseconds bool) {
	if memory, ok := store.(*memstore.Store); ok {
		o.Store(func() metrics.StoreState {
			stats := memory.Stats()
			return metrics.StoreState{Keys: stats.Keys, Bytes: stats.Bytes, Overflowed: stats.Overflowed}
		})
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
