// Package tracing creates OpenTelemetry spans for the requests of every API and for the
// calls of a store on a network.
//
// A request has one span of the kind server. Its parent is the span in the field
// traceparent of the request (W3C Trace Context), if there is one. Its attributes
// describe the decision; see [Tracer.Observer]. A call of the store has a span of the
// kind client, which is a child of the request's span. No attribute contains a key, the
// address of a client or the value of a header field.
//
// The package uses only the API of OpenTelemetry. If tracing is off, nothing of this
// package is called.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the instrumentation scope of all spans.
const Scope = "github.com/headgate/headgate/cmd/headgate"

// Tracer creates spans. It is created with [New] and may be used concurrently.
type Tracer struct{ tracer trace.Tracer }

// New returns a tracer whose spans belong to a provider. version is the version of the
// program.
func New(provider trace.TracerProvider, version string) *Tracer {
	return &Tracer{provider.Tracer(Scope, trace.WithInstrumentationVersion(version))}
}

// request is the span of a request whose decision is being recorded. Its decisions are
// made one after another.
type request struct {
	span    trace.Span
	outcome outcome // outcome in the attributes; none before the first decision
}

type requestKey struct{}

// requestOf returns the request of a context, or nil if the request is not recorded.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// start starts the span of a request to an API. The carrier contains the fields of the
// request. The result is nil if the span is not recorded; the context is then unchanged.
func (t *Tracer) start(
	ctx context.Context, api, name string, carrier propagation.TextMapCarrier, attributes ...attribute.KeyValue,
) (context.Context, *request) {
	parent := propagation.TraceContext{}.Extract(ctx, carrier)
	started, span := t.tracer.Start(parent, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	if !span.IsRecording() {
		span.End()
		return ctx, nil
	}
	span.SetAttributes(attribute.String("headgate.api", api))
	r := &request{span: span}
	return context.WithValue(started, requestKey{}, r), r
}

// fail marks the span as failed, for a failure of this service or of its store.
func (r *request) fail(kind string) {
	r.span.SetAttributes(attribute.String("error.type", kind))
	r.span.SetStatus(codes.Error, kind)
}
