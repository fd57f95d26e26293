package service

import (
	"log/slog"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// parts are what the listeners answer with.
type parts struct {
	config    *config.Config
	version   string
	log       *slog.Logger
	observers *observers
	engine    *engine.Engine
	envoy     *envoyEndpoint
	live      *config.Live
	health    *httpapi.Health
}

// newParts makes what the listeners answer with, over an open store.
func newParts(
	c *config.Config, sources config.Sources, version string, log *slog.Logger, seen *observers, store headgate.Store,
) (*parts, error) {
	e, err := engine.New(store, c.Engine())
	if err != nil {
		return nil, c.Refused(err)
	}
	v, err := newEnvoy(seen.Observed(e, "grpc"), c, log)
	if err != nil {
		return nil, err
	}
	live := startConfig(sources, c, e, log)
	seen.report(store, live, v.handler, v.client, c.Envoy.ResponseMS)
	health := httpapi.NewHealth(e, healthOptions(c, live, v))
	return &parts{c, version, log, seen, e, v, live, health}, nil
}

// observed is the engine for one listener, whose decisions are counted under its name.
func (p *parts) observed(listener string) *engine.Engine {
	return p.observers.Observed(p.engine, listener)
}

// healthOptions are what /readyz reports on every listener.
func healthOptions(c *config.Config, live *config.Live, v *envoyEndpoint) *httpapi.HealthOptions {
	opts := &httpapi.HealthOptions{Store: storeopen.Name(string(c.Store))}
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
