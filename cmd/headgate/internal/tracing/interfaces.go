package tracing

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/recorder"
)

// HTTP returns a handler that calls next within a span. route is the path of the
// operation, without values that a client chooses.
func (t *Tracer) HTTP(api, route string, next http.Handler) http.Handler {
	name := http.MethodPost + " " + route
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, r := t.start(req.Context(), api, name, propagation.HeaderCarrier(req.Header),
			attribute.String("http.request.method", method(req.Method)), attribute.String("http.route", route))
		if r == nil {
			next.ServeHTTP(w, req)
			return
		}
		defer r.span.End()
		rec := &recorder.Recorder{ResponseWriter: w}
		next.ServeHTTP(rec, req.WithContext(ctx))
		r.span.SetAttributes(attribute.Int("http.response.status_code", rec.Status()))
		if rec.Status() >= http.StatusInternalServerError && r.outcome != denied {
			r.fail(strconv.Itoa(rec.Status()))
		}
	})
}

// method returns the name of a method as the semantic conventions require: a client can
// send any text.
func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodConnect, http.MethodOptions,
		http.MethodTrace, http.MethodPatch:
		return name
	}
	return "_OTHER"
}

// metadataCarrier reads fields of a gRPC request.
type metadataCarrier struct {
	metadata.MD
}

func (c metadataCarrier) Get(key string) string {
	if values := c.MD.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set is not used: this service sends no requests.
func (c metadataCarrier) Set(string, string) {}

// Keys is not used by [propagation.TraceContext].
func (c metadataCarrier) Keys() []string { return nil }

// GRPC returns an interceptor that processes the requests of one method within spans.
// method is the full name of the method, with a slash at the start.
func (t *Tracer) GRPC(api, method string) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if info.FullMethod != method {
			return next(srv, stream)
		}
		fields, _ := metadata.FromIncomingContext(stream.Context())
		ctx, r := t.start(stream.Context(), api, method[1:], metadataCarrier{fields},
			attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", method[1:]))
		if r == nil {
			return next(srv, stream)
		}
		defer r.span.End()
		err := next(srv, tracedStream{stream, ctx})
		code := status.Code(err).String()
		r.span.SetAttributes(attribute.String("rpc.response.status_code", code))
		if err != nil {
			r.fail(code)
		}
		return err
	}
}

// tracedStream is a stream whose context contains a span.
type tracedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context with the span.
func (s tracedStream) Context() context.Context { return s.ctx }

// parentCarrier has only the field traceparent.
type parentCarrier string

func (c parentCarrier) Get(key string) string {
	if key == "traceparent" {
		return string(c)
	}
	return ""
}

// Set is not used: this service sends no requests.
func (c parentCarrier) Set(string, string) {}

// Keys is not used by [propagation.TraceContext].
func (c parentCarrier) Keys() []string { return nil }

// Command starts the span of a command of a Redis client. traceparent is the value that
// the client sent for it, or empty. The caller must call end after the decision.
func (t *Tracer) Command(ctx context.Context, name, traceparent string) (_ context.Context, end func(err error)) {
	ctx, r := t.start(ctx, "resp", name, parentCarrier(traceparent))
	if r == nil {
		return ctx, func(error) {}
	}
	return ctx, func(err error) {
		if err != nil && r.outcome == undecided {
			r.fail(r.outcome.String())
		}
		r.span.End()
	}
}
