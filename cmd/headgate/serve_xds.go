package main

import (
	"context"
	"errors"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyxds"
	"github.com/headgate/headgate/cmd/headgate/internal/metrics"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// openXDS makes the client of the control plane that says the rules. It does not ask yet.
func (r *envoyRules) openXDS() (err error) {
	s := r.service
	if r.xds, err = envoyxds.New(r, xdsOptions(&s.config.Envoy.XDS, s)); err != nil {
		return err
	}
	s.metrics.XDS(func() metrics.XDSState { return metrics.XDSState(r.xds.State()) })
	return nil
}

// xdsOptions are the settings of a client of a control plane.
func xdsOptions(c *config.XDS, s *service) *envoyxds.Options {
	opts := &envoyxds.Options{
		Server: string(c.Server), NodeID: c.NodeID, NodeMetadata: make(map[string]string), Headers: make(map[string]string),
		MaxMessageBytes: c.MaxMessageBytes, ConnectRetry: c.ConnectRetry, BackoffInitial: c.BackoffInitial, BackoffMax: c.BackoffMax,
		BackoffRandom: float64(c.BackoffRandom) / float64(engine.All), Log: s.log,
	}
	for _, l := range c.NodeMetadata {
		name, value := l.Split()
		opts.NodeMetadata[name] = value
	}
	for _, h := range c.Headers {
		name, value := h.Split()
		opts.Headers[name] = value
	}
	if c.UseTLS {
		files := c.TLS.Files()
		opts.TLS = &files
	}
	return opts
}

// Use puts what the control plane says into force, all of it or nothing.
func (r *envoyRules) Use(resources []*envoyxds.Resource) error {
	c, err := envoyconfig.ParseResources(resources, parseOptions(&r.service.config.Envoy))
	if err == nil {
		err = r.handler.Use(c)
	}
	if err == nil {
		r.refused.Store(false)
		r.loaded(c, "resources", len(resources))
	}
	return err
}

// Refused tells why what the control plane says does not hold.
func (r *envoyRules) Refused(err error) {
	r.refused.Store(true)
	r.refuse(err)
}

// followXDS keeps the rules as the control plane says, if there is one, until end is called. It waits for the first that are good, unless
// the service is to start without; first says that it need not wait any more: if not, ctx ended before.
func (s *service) followXDS(ctx context.Context) (end func(), first bool) {
	if s.envoy.xds == nil {
		return func() {}, true
	}
	end = inBackground(ctx, s.envoy.xds.Run)
	if s.config.Envoy.StartAnyway {
		return end, true
	}
	s.log.Info("waiting for the first configuration of the control plane", "server", string(s.config.Envoy.XDS.Server))
	select {
	case <-s.envoy.ready:
		return end, true
	case <-ctx.Done():
		return end, false
	}
}

// controlPlane is how it stands with the control plane, for /readyz.
func (r *envoyRules) controlPlane() (connected, configured bool) {
	return r.xds.State().Connected, r.holds()
}

// count counts a configuration that was refused before it came to the door, which counts those that it refuses itself.
func (r *envoyRules) count(err error) {
	if !errors.Is(err, rlsapi.ErrConfig) {
		r.handler.Refused()
	}
}
