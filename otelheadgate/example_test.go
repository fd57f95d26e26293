package otelheadgate_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/otelheadgate"
)

// A program passes the provider of its exporter, or sets the global provider. This
// example reads the metrics itself.
func Example() {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	// [snippet observer]
	observer, err := otelheadgate.New(&otelheadgate.Options{MeterProvider: provider})
	if err != nil {
		panic(err)
	}
	policy := headgate.MustNamedPolicy("login", "1/1h")
	limiter, err := headgate.New(memstore.New(nil), policy, &headgate.Options{Observer: observer})
	// [end observer]
	if err != nil {
		panic(err)
	}
	for range 3 {
		if _, err := limiter.Allow(context.Background(), "alice"); err != nil {
			panic(err)
		}
	}

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	for _, point := range all.ScopeMetrics[0].Metrics[0].Data.(metricdata.Sum[int64]).DataPoints {
		outcome, _ := point.Attributes.Value("headgate.outcome")
		fmt.Println(outcome.AsString(), point.Value)
	}
	// Unordered output:
	// allowed 1
	// denied 2
}
