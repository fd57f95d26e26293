// Command collector runs the OTLP receiver of the OpenTelemetry Collector for tests. It
// writes what it receives to standard output, as one line of OTLP JSON for each request.
//
//	collector GRPC-ADDRESS HTTP-ADDRESS
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: collector GRPC-ADDRESS HTTP-ADDRESS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "collector:", err)
		os.Exit(1)
	}
}

// run receives until the process is asked to end.
func run(grpc, http string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	receivers, err := newReceivers(ctx, grpc, http)
	if err != nil {
		return err
	}
	for _, r := range receivers {
		if err := r.Start(ctx, componenttest.NewNopHost()); err != nil {
			return err
		}
	}
	<-ctx.Done()
	for _, r := range receivers {
		if err := r.Shutdown(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// newReceivers returns the receivers of traces and of metrics, which share their
// listeners.
func newReceivers(ctx context.Context, grpc, http string) ([]component.Component, error) {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"grpc": map[string]any{"endpoint": grpc}, "http": map[string]any{"endpoint": http},
	}}).Unmarshal(config)
	if err != nil {
		return nil, err
	}
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	out := &printer{}
	traces, err := consumer.NewTraces(func(_ context.Context, t ptrace.Traces) error {
		return out.print((&ptrace.JSONMarshaler{}).MarshalTraces(t))
	})
	if err != nil {
		return nil, err
	}
	metrics, err := consumer.NewMetrics(func(_ context.Context, m pmetric.Metrics) error {
		return out.print((&pmetric.JSONMarshaler{}).MarshalMetrics(m))
	})
	if err != nil {
		return nil, err
	}
	first, err := factory.CreateTraces(ctx, settings, config, traces)
	if err != nil {
		return nil, err
	}
	second, err := factory.CreateMetrics(ctx, settings, config, metrics)
	return []component.Component{first, second}, err
}

// printer writes lines to standard output.
type printer struct{ mu sync.Mutex }

func (p *printer) print(line []byte, err error) error {
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}
