package otlp

import (
	"context"
	"crypto/rand"
	"fmt"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/credentials"
)

// newTraceExporter returns an exporter of the SDK. It connects in the background.
func newTraceExporter(ctx context.Context, o *Options) (sdktrace.SpanExporter, error) {
	if o.Protocol == GRPC {
		opts := []otlptracegrpc.Option{
			otlptracegrpc.WithEndpointURL(o.TracesURL), otlptracegrpc.WithHeaders(o.Headers), otlptracegrpc.WithTimeout(o.Timeout),
		}
		if o.TLS != nil {
			opts = append(opts, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
		}
		if o.Gzip {
			opts = append(opts, otlptracegrpc.WithCompressor("gzip"))
		}
		return otlptracegrpc.New(ctx, opts...)
	}
	opts := []otlptracehttp.Option{
		otlptracehttp.WithEndpointURL(o.TracesURL), otlptracehttp.WithHeaders(o.Headers), otlptracehttp.WithTimeout(o.Timeout),
	}
	if o.TLS != nil {
		opts = append(opts, otlptracehttp.WithTLSClientConfig(o.TLS))
	}
	if o.Gzip {
		opts = append(opts, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	}
	return otlptracehttp.New(ctx, opts...)
}

// newMetricExporter returns an exporter of the SDK. It connects in the background.
func newMetricExporter(ctx context.Context, o *Options) (metric.Exporter, error) {
	if o.Protocol == GRPC {
		opts := []otlpmetricgrpc.Option{
			otlpmetricgrpc.WithEndpointURL(o.MetricsURL), otlpmetricgrpc.WithHeaders(o.Headers), otlpmetricgrpc.WithTimeout(o.Timeout),
		}
		if o.TLS != nil {
			opts = append(opts, otlpmetricgrpc.WithTLSCredentials(credentials.NewTLS(o.TLS)))
		}
		if o.Gzip {
			opts = append(opts, otlpmetricgrpc.WithCompressor("gzip"))
		}
		return otlpmetricgrpc.New(ctx, opts...)
	}
	opts := []otlpmetrichttp.Option{
		otlpmetrichttp.WithEndpointURL(o.MetricsURL), otlpmetrichttp.WithHeaders(o.Headers), otlpmetrichttp.WithTimeout(o.Timeout),
	}
	if o.TLS != nil {
		opts = append(opts, otlpmetrichttp.WithTLSClientConfig(o.TLS))
	}
	if o.Gzip {
		opts = append(opts, otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
	}
	return otlpmetrichttp.New(ctx, opts...)
}

// countingProcessor counts the spans that end.
type countingProcessor struct {
	sdktrace.SpanProcessor
	exporter *Exporter
}

func (p *countingProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	p.exporter.ended.Add(1)
	p.SpanProcessor.OnEnd(s)
}

// spanExporter reports the result of each export. It returns no error, because the SDK
// would write each of them to the log.
type spanExporter struct {
	sdktrace.SpanExporter
	exporter *Exporter
}

func (x *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := x.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		x.exporter.sent.Add(uint64(len(spans)))
	}
	x.exporter.report("traces", x.exporter.opts.TracesURL, err)
	return nil
}

// metricExporter is like spanExporter, for metrics.
type metricExporter struct {
	metric.Exporter
	exporter *Exporter
}

func (x *metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	x.exporter.report("metrics", x.exporter.opts.MetricsURL, x.Exporter.Export(ctx, m))
	return nil
}

// newInstanceID returns a random UUID.
func newInstanceID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
