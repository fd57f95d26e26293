package service

import (
	"log/slog"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// parts are the components that the servers use.
type parts struct {
	config    *config.Config
	version   string
	log       *slog.Logger
	observers *observers
	store     headgate.Store
	engine    *engine.Engine
	seen      seenEngines
	envoy     *envoyEndpoint
	live      *config.Live
	history   *config.History
	gates     *gates
	overrides *overrides.Live
	health    *httpapi.Health
}

// seenEngines has one view of the engine for each API, so that decisions are counted
// under the name of the API.
type seenEngines struct{ http, forwardAuth, resp, grpc *engine.Engine }

// newParts creates the components of the service, which use an open store.
func newParts(
	c *config.Config, sources config.Sources, version string, log *slog.Logger, seen *observers, store headgate.Store,
) (*parts, error) {
	e, err := engine.New(store, c.Engine())
	if err != nil {
		return nil, c.Refused(err)
	}
	gates, err := newGates(c, sources.Lookup)
	if err != nil {
		return nil, err
	}
	engines := seenEngines{seen.WithObserver(e, "http"), seen.WithObserver(e, "forward_auth"), seen.WithObserver(e, "resp"), seen.WithObserver(e, "grpc")}
	v, err := newEnvoy(engines.grpc, c, log)
	if err != nil {
		return nil, err
	}
	history := &config.History{}
	live := startConfig(sources, c, func(c *config.Config) error { return gates.applyTo(e, c) }, history, log)
	stored := overrides.New(&overrides.Options{Store: store, Engine: e, Log: log, Every: c.OverridesPoll})
	seen.report(store, live, v.handler, v.client, c.Envoy.ResponseMS)
	seen.reportOverrides(stored)
	health := httpapi.NewHealth(e, healthOptions(c, live, v, seen))
	return &parts{c, version, log, seen, store, e, engines, v, live, history, gates, stored, health}, nil
}

// healthOptions returns the options for /readyz, which are the same on every listener.
func healthOptions(c *config.Config, live *config.Live, v *envoyEndpoint, seen *observers) *httpapi.HealthOptions {
	opts := &httpapi.HealthOptions{Store: storeopen.Name(string(c.Store)), NodesUnavailable: seen.NodesUnavailable}
	if v.client != nil {
		opts.ControlPlane = v.controlPlane
	}
	if live.Status().Path != "" || c.Envoy.Config != "" || v.client != nil {
		opts.Config = func() (uint64, bool) {
			status := live.Status()
			return status.Generation, status.Err != nil || v.rules.refused.Load()
		}
	}
	return opts
}
