package service

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyxds"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// envoyEndpoint is Envoy's rate limit service: the handler, its rules and the source of
// the rules.
type envoyEndpoint struct {
	handler *rlsapi.Handler
	rules   *envoyRules
	client  *envoyxds.Client          // client of the control plane; nil if none is configured
	follow  func(ctx context.Context) // applies changes of the rules until ctx ends
}

// newEnvoy creates Envoy's rate limit service. If a folder of rules is configured, it
// loads the rules. It does not connect to a control plane.
func newEnvoy(e *engine.Engine, c *config.Config, log *slog.Logger) (*envoyEndpoint, error) {
	handler, err := rlsapi.New(e, rlsOptions(c, log))
	if err != nil {
		return nil, err
	}
	rules := newEnvoyRules(c, handler, log)
	switch {
	case c.Envoy.XDS.Server != "":
		client, err := envoyxds.New(rules, xdsOptions(&c.Envoy.XDS, log))
		if err != nil {
			return nil, err
		}
		return &envoyEndpoint{handler, rules, client, client.Run}, nil
	case c.Envoy.Config != "":
		folder := &ruleFolder{rules: rules}
		if folder.load(true, time.Now()); rules.refused.Load() && !c.Envoy.StartAnyway {
			return nil, fmt.Errorf("invalid Envoy configuration in %s (%s); correct the files, or start without rules with --envoy-start-anyway",
				c.Envoy.Config, c.Origins["envoy.config"])
		}
		return &envoyEndpoint{handler, rules, nil, folder.follow}, nil
	default:
		return &envoyEndpoint{handler, rules, nil, func(context.Context) {}}, nil
	}
}

func rlsOptions(c *config.Config, log *slog.Logger) *rlsapi.Options {
	from := &c.Envoy
	opts := &rlsapi.Options{
		Charge: rlsapi.ChargeMode(from.Charge), LocalDenials: from.LocalDenials, Shadow: from.Shadow, Quota: from.Quota, DynamicMetadata: from.Metadata,
		NearLimitRatio: nearLimitRatio(from.NearLimit), NeedDomains: from.NeedDomains, CalendarMonths: from.CalendarMonths, Unavailable503: from.JSON503,
		MaxBodyBytes: max(c.MaxBodyBytes, c.GRPC.MaxMessageBytes), SampleTimes: c.Statsd.Addr != config.Off, Log: log,
	}
	if from.Headers {
		opts.Headers = &rlsapi.Headers{Limit: from.HeaderLimit, Remaining: from.HeaderRemaining, Reset: from.HeaderReset}
	}
	return opts
}

// nearLimitRatio converts a percentage to the ratio that the handler expects. There, 0
// means the default and a negative number means 0.
func nearLimitRatio(s engine.Percent) float64 {
	if s == 0 {
		return -1
	}
	return float64(s) / float64(engine.All)
}

func xdsOptions(c *config.XDS, log *slog.Logger) *envoyxds.Options {
	opts := &envoyxds.Options{
		Server: string(c.Server), NodeID: c.NodeID, NodeMetadata: make(map[string]string), Headers: make(map[string]string),
		MaxMessageBytes: c.MaxMessageBytes, ConnectRetry: c.ConnectRetry, BackoffInitial: c.BackoffInitial, BackoffMax: c.BackoffMax,
		BackoffRandom: float64(c.BackoffRandom) / float64(engine.All), Log: log,
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

// awaitRules waits for the first rules from the control plane. It returns immediately
// if there is no control plane or if the service may start without rules. It returns
// false if ctx ends first.
func (v *envoyEndpoint) awaitRules(ctx context.Context) bool {
	if v.client == nil || v.rules.config.StartAnyway {
		return true
	}
	v.rules.log.Info("waiting for first xDS configuration", "server", string(v.rules.config.XDS.Server))
	select {
	case <-v.rules.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// controlPlane returns the state of the control plane for /readyz.
func (v *envoyEndpoint) controlPlane() (connected, configured bool) {
	return v.client.State().Connected, v.rules.configured()
}
