// Package otlp exports spans and metrics over OTLP, the protocol of OpenTelemetry, with
// the exporters of its SDK.
//
// Spans are queued and sent in batches by a goroutine. If the queue is full, further
// spans are dropped, so that a slow collector delays no request. The SDK's environment
// variables OTEL_BSP_* set the size of the queue and of a batch. Metrics are those of
// Prometheus, converted once per interval.
package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The protocols.
const (
	GRPC = "grpc"
	HTTP = "http/protobuf"
)

// Options are the settings of an exporter. Fields without a default in their comment are
// required.
type Options struct {
	TracesURL  string // URL for spans; empty means that none are exported
	MetricsURL string // URL for metrics; empty means that none are exported
	Protocol   string // GRPC or HTTP
	Headers    map[string]string
	Gzip       bool          // whether requests are compressed
	Timeout    time.Duration // maximum time of a request
	TLS        *tls.Config   // TLS for URLs that begin with https; nil means the system's authorities

	ServiceName string            // name of this service in the resource
	Version     string            // version of this program in the resource
	Attributes  map[string]string // further attributes of the resource

	Sampler  string              // name of the sampler, as in the variable OTEL_TRACES_SAMPLER
	Ratio    float64             // ratio of the samplers that have one, from 0 to 1
	Gatherer prometheus.Gatherer // source of the metrics
	Interval time.Duration       // time between two exports of metrics
	Report   func(string, error) // called with traces or metrics and the result after each export
	Log      *slog.Logger        // logger for the start and the end of failures; nil means no log
}

// Exporter exports spans and metrics. It is created with [Start].
type Exporter struct {
	opts    Options
	tracer  trace.TracerProvider
	stops   []func(context.Context) error
	ended   atomic.Uint64
	sent    atomic.Uint64
	mu      sync.Mutex
	failing map[string]bool // by signal
}

// Start starts an exporter. It does not wait for a connection.
func Start(ctx context.Context, opts *Options) (*Exporter, error) {
	e := &Exporter{opts: *opts, tracer: noop.NewTracerProvider(), failing: make(map[string]bool)}
	e.opts.Log = cmp.Or(e.opts.Log, slog.New(slog.DiscardHandler))
	// The exporters report what a collector has rejected to this global handler. By
	// default, it writes to standard error.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { e.opts.Log.Warn("OTLP error", "error", err) }))
	about, err := e.resource()
	if err != nil {
		return nil, err
	}
	if e.opts.TracesURL != "" {
		if err := e.startTraces(ctx, about); err != nil {
			return nil, errors.Join(err, e.Close(ctx))
		}
	}
	if e.opts.MetricsURL != "" {
		if err := e.startMetrics(ctx, about); err != nil {
			return nil, errors.Join(err, e.Close(ctx))
		}
	}
	return e, nil
}

// resource returns the attributes of this process.
func (e *Exporter) resource() (*resource.Resource, error) {
	attributes := []attribute.KeyValue{
		attribute.String("service.name", e.opts.ServiceName), attribute.String("service.version", e.opts.Version),
	}
	if _, set := e.opts.Attributes["service.instance.id"]; !set {
		attributes = append(attributes, attribute.String("service.instance.id", newInstanceID()))
	}
	for name, value := range e.opts.Attributes {
		if name != "service.name" {
			attributes = append(attributes, attribute.String(name, value))
		}
	}
	about, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attributes...))
	if errors.Is(err, resource.ErrPartialResource) {
		return about, nil // the name of the host is missing
	}
	return about, err
}

func (e *Exporter) startTraces(ctx context.Context, about *resource.Resource) error {
	exporter, err := newTraceExporter(ctx, &e.opts)
	if err != nil {
		return fmt.Errorf("OTLP exporter for traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about), sdktrace.WithSampler(e.sampler()),
		sdktrace.WithSpanProcessor(&countingProcessor{sdktrace.NewBatchSpanProcessor(&spanExporter{exporter, e}), e}),
	)
	e.tracer, e.stops = provider, append(e.stops, provider.Shutdown)
	return nil
}

// sampler returns the sampler with the configured name.
func (e *Exporter) sampler() sdktrace.Sampler {
	ratio := sdktrace.TraceIDRatioBased(e.opts.Ratio)
	switch e.opts.Sampler {
	case "always_on":
		return sdktrace.AlwaysSample()
	case "always_off":
		return sdktrace.NeverSample()
	case "traceidratio":
		return ratio
	case "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample())
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample())
	}
	return sdktrace.ParentBased(ratio)
}

func (e *Exporter) startMetrics(ctx context.Context, about *resource.Resource) error {
	exporter, err := newMetricExporter(ctx, &e.opts)
	if err != nil {
		return fmt.Errorf("OTLP exporter for metrics: %w", err)
	}
	reader := metric.NewPeriodicReader(&metricExporter{exporter, e}, metric.WithInterval(e.opts.Interval), metric.WithTimeout(e.opts.Timeout),
		metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(e.opts.Gatherer))))
	provider := metric.NewMeterProvider(metric.WithResource(about), metric.WithReader(reader))
	e.stops = append(e.stops, provider.Shutdown)
	return nil
}

// TracerProvider returns the provider of tracers whose spans are exported.
func (e *Exporter) TracerProvider() trace.TracerProvider { return e.tracer }

// Spans returns the number of recorded spans, and the number of spans that a collector
// has received. All other spans are queued, or were dropped.
func (e *Exporter) Spans() (recorded, exported uint64) { return e.ended.Load(), e.sent.Load() }

// Close exports what is queued, until ctx ends, and stops all goroutines.
func (e *Exporter) Close(ctx context.Context) error {
	errs := make([]error, len(e.stops))
	var all sync.WaitGroup
	for i, stop := range e.stops {
		all.Go(func() { errs[i] = stop(ctx) })
	}
	all.Wait()
	e.stops = nil
	return errors.Join(errs...)
}

// report reports the result of an export, and logs the start and the end of failures.
// signal is traces or metrics.
func (e *Exporter) report(signal, endpoint string, err error) {
	if e.opts.Report != nil {
		e.opts.Report(signal, err)
	}
	e.mu.Lock()
	changed := e.failing[signal] != (err != nil)
	e.failing[signal] = err != nil
	e.mu.Unlock()
	switch {
	case changed && err != nil:
		e.opts.Log.Warn("OTLP export failed; data is dropped until the collector recovers", "signal", signal, "endpoint", host(endpoint), "error", err)
	case changed:
		e.opts.Log.Info("OTLP export recovered", "signal", signal, "endpoint", host(endpoint))
	}
}

// host returns the host and port of a URL, for logs.
func host(endpoint string) string {
	if u, err := url.Parse(endpoint); err == nil {
		return u.Host
	}
	return "?"
}
