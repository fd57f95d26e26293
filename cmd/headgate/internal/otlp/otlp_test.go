package otlp_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/headgate/headgate/cmd/headgate/internal/collector"
	"github.com/headgate/headgate/cmd/headgate/internal/otlp"
	"github.com/headgate/headgate/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// remote returns a context with the span of a client, which is sampled or not.
func remote(sampled bool) context.Context {
	config := trace.SpanContextConfig{TraceID: trace.TraceID{0: 0xff, 8: 0xff}, SpanID: trace.SpanID{1}, Remote: true}
	if sampled {
		config.TraceFlags = trace.FlagsSampled
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(config))
}

// The samplers have the meaning of OTEL_TRACES_SAMPLER.
func TestSamplers(t *testing.T) {
	t.Parallel()
	receivers := map[string]*collector.Collector{otlp.GRPC: collector.Start(t, otlp.GRPC), otlp.HTTP: collector.Start(t, otlp.HTTP)}
	for _, c := range []struct {
		name  string
		ratio float64
		// Whether a request without a parent is recorded, one with a sampled parent, and
		// one with a parent that is not sampled.
		root, sampled, others bool
	}{
		{"always_on", 0, true, true, true},
		{"always_off", 1, false, false, false},
		{"traceidratio", 1, true, true, true},
		{"traceidratio", 0, false, false, false},
		{"parentbased_always_on", 0, true, true, false},
		{"parentbased_always_off", 1, false, true, false},
		{"parentbased_traceidratio", 1, true, true, false},
		{"parentbased_traceidratio", 0, false, true, false},
	} {
		for protocol, receiver := range receivers {
			e, err := otlp.Start(t.Context(), &otlp.Options{
				TracesURL: receiver.URL(), Protocol: protocol, Timeout: time.Minute, ServiceName: "test", Sampler: c.name, Ratio: c.ratio,
				Gatherer: prometheus.NewRegistry(), Interval: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
			tracer := e.TracerProvider().Tracer("test")
			for _, one := range []struct {
				what string
				ctx  context.Context
				want bool
			}{{"no parent", context.Background(), c.root}, {"a sampled parent", remote(true), c.sampled}, {"another parent", remote(false), c.others}} {
				_, span := tracer.Start(one.ctx, "request")
				if got := span.IsRecording(); got != one.want {
					t.Errorf("%s with ratio %v, %s: recorded %v, want %v", c.name, c.ratio, one.what, got, one.want)
				}
			}
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
