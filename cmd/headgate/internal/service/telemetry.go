package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/otlp"
	"github.com/headgate/headgate/cmd/headgate/internal/respapi"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/cmd/headgate/internal/statsd"
	"github.com/headgate/headgate/cmd/headgate/internal/tracing"
)

// exportTime is the maximum time for which the end of the process waits until the
// collector has received what is queued.
const exportTime = 5 * time.Second

// The names of the exporters in metrics.
const (
	otlpExporter   = "otlp_" // followed by traces or metrics
	statsdExporter = "statsd"
)

// telemetry exports metrics and traces to other systems.
type telemetry struct {
	config *config.Config
	log    *slog.Logger
	report func(exporter string, err error)
	otlp   *otlp.Exporter // nil if nothing is exported over OTLP
}

// startTelemetry starts the export over OTLP, and sets the tracer of seen, if they are
// configured. An error is caused by a setting.
func startTelemetry(c *config.Config, version string, log *slog.Logger, seen *observers) (*telemetry, error) {
	t := &telemetry{config: c, log: log, report: func(string, error) {}}
	if names := exporters(c); len(names) > 0 {
		t.report = seen.Exports(names...)
	}
	if c.OTLP.TracesURL()+c.OTLP.MetricsURL() == "" {
		return t, nil
	}
	opts, err := t.otlpOptions(version, seen)
	if err == nil {
		t.otlp, err = otlp.Start(context.Background(), opts)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, c.Origins["otlp.endpoint"])
	}
	if opts.TracesURL != "" {
		seen.tracer = tracing.New(t.otlp.TracerProvider(), version)
		seen.Spans(t.otlp.Spans)
	}
	log.Info("OTLP export started", "traces", cmp.Or(opts.TracesURL, "off"), "metrics", cmp.Or(opts.MetricsURL, "off"), "protocol", opts.Protocol)
	return t, nil
}

// exporters returns the names of all exporters that are on.
func exporters(c *config.Config) (names []string) {
	if c.OTLP.TracesURL() != "" {
		names = append(names, otlpExporter+"traces")
	}
	if c.OTLP.MetricsURL() != "" {
		names = append(names, otlpExporter+"metrics")
	}
	if c.Statsd.Addr != config.Off {
		names = append(names, statsdExporter)
	}
	return names
}

func (t *telemetry) otlpOptions(version string, seen *observers) (*otlp.Options, error) {
	c := &t.config.OTLP
	opts := &otlp.Options{
		TracesURL: c.TracesURL(), MetricsURL: c.MetricsURL(), Protocol: c.Protocol, Headers: make(map[string]string),
		Gzip: c.Compression == "gzip", Timeout: c.Timeout, ServiceName: c.ServiceName, Version: version, Attributes: labels(c.Attributes),
		Sampler: c.Sampler, Ratio: float64(c.Sample) / float64(engine.All), Gatherer: seen.Gatherer(), Interval: c.MetricsInterval,
		Report: func(signal string, err error) { t.report(otlpExporter+signal, err) }, Log: t.log,
	}
	for _, h := range c.Headers {
		name, value := h.Split()
		opts.Headers[name] = value
	}
	if files := c.TLS.Files(); files.Cert+files.Key+files.CA+files.PeerName != "" {
		secure, err := files.Client()
		if err != nil {
			return nil, fmt.Errorf("TLS to the OTLP collector: %w", err)
		}
		opts.TLS = secure
	}
	return opts, nil
}

// labels returns a list of name=value as a map.
func labels(list []config.Label) map[string]string {
	all := make(map[string]string, len(list))
	for _, l := range list {
		name, value := l.Split()
		all[name] = value
	}
	return all
}

// close exports what is queued, for at most exportTime, and stops.
func (t *telemetry) close() {
	if t.otlp == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exportTime)
	defer cancel()
	_ = t.otlp.Close(ctx) // failures of exports have been logged
}

// statsd returns the client of the statsd server, or nil if there is none. The client
// sends the counters of Envoy's rate limit service.
func (t *telemetry) statsd(p *parts) *statsd.Client {
	c := &t.config.Statsd
	if c.Addr == config.Off {
		return nil
	}
	t.log.Info("statsd started", "address", string(c.Addr), "protocol", c.Protocol, "interval", c.Interval.String(),
		"source", t.config.Origins["statsd.addr"])
	return statsd.New(statsd.Options{
		Addr: string(c.Addr), Protocol: c.Protocol, Interval: c.Interval, Tags: labels(c.Tags), TagFormat: c.TagFormat,
		Read:   func() statsd.Values { return statsdValues(p.envoy.handler) },
		Report: func(err error) { t.report(statsdExporter, err) }, Log: t.log, Default: t.config.StatsdIsDefault(),
	})
}

// statsdValues returns the statistics of Envoy's rate limit service. It leaves out the
// counters of removed rules, whose counts were sent under the names of the rules.
func statsdValues(handler *rlsapi.Handler) statsd.Values {
	counted := handler.Stats()
	for path := range counted.Rules {
		if strings.HasSuffix(path, rlsapi.RemovedRules) {
			delete(counted.Rules, path)
		}
	}
	values := statsd.Values{Counters: envoyCounters(counted)}
	for _, sample := range handler.TakeTimes() {
		values.Timers = append(values.Timers, statsd.Timer{
			Name: "ratelimit_server.ShouldRateLimit.response_time", Values: sample.Values, Events: sample.Count,
		})
	}
	return values
}

// http returns a handler that traces the requests to an API over HTTP.
func (o *observers) http(api, route string, next http.Handler) http.Handler {
	if o.tracer == nil {
		return next
	}
	return o.tracer.HTTP(api, route, next)
}

// wrapOperation returns the function that traces the operations of the HTTP API, or nil.
func (o *observers) wrapOperation() func(path string, next http.Handler) http.Handler {
	if o.tracer == nil {
		return nil
	}
	return func(path string, next http.Handler) http.Handler { return o.tracer.HTTP("http", path, next) }
}

// commands returns the tracer of Redis commands, or nil.
func (o *observers) commands() respapi.Tracer {
	if o.tracer == nil {
		return nil
	}
	return o.tracer
}

// interceptor returns the interceptor that traces requests of Envoy, or nil.
func (o *observers) interceptor() grpc.StreamServerInterceptor {
	if o.tracer == nil {
		return nil
	}
	return o.tracer.GRPC("grpc", rlsapi.FullMethod)
}
