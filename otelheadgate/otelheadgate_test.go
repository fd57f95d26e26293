package otelheadgate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/otelheadgate"
)

// newObserver returns an observer, and a function that returns the sums of a counter by
// the values of its attributes in alphabetical order of their names.
func newObserver(t testing.TB) (*otelheadgate.Observer, func(name string) []string) {
	t.Helper()
	reader := metric.NewManualReader()
	o, err := otelheadgate.New(&otelheadgate.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	return o, func(name string) (lines []string) {
		var all metricdata.ResourceMetrics
		if err := reader.Collect(context.Background(), &all); err != nil {
			t.Fatal(err)
		}
		for _, m := range all.ScopeMetrics[0].Metrics {
			if m.Name != name {
				continue
			}
			for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
				lines = append(lines, fmt.Sprintf("%s %d", point.Attributes.Encoded(attribute.DefaultEncoder()), point.Value))
			}
		}
		slices.Sort(lines)
		return lines
	}
}

func requireEqual(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	o, counter := newObserver(t)
	l, err := headgate.New(memstore.New(nil), headgate.MustNamedPolicy("login", "3/1h"), &headgate.Options{Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, cost := range []int64{1, 2, 2} {
		if _, err := l.AllowN(ctx, "alice", cost); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Peek(ctx, "bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.AllowN(ctx, "alice", -1); err == nil {
		t.Fatal("a negative cost was accepted")
	}
	o.Observe(headgate.Event{Policy: "login", Verb: "take", Cost: 1, Decision: headgate.Decision{Allowed: true, Degraded: headgate.ReasonTimedOut}})
	requireEqual(t, "headgate.decisions", counter("headgate.decisions"), []string{
		"headgate.operation=peek,headgate.outcome=allowed,headgate.policy=login 1",
		"headgate.operation=take,headgate.outcome=allowed,headgate.policy=login 2",
		"headgate.operation=take,headgate.outcome=degraded,headgate.policy=login 1",
		"headgate.operation=take,headgate.outcome=denied,headgate.policy=login 1",
		"headgate.operation=take,headgate.outcome=failed,headgate.policy=login 1",
	})
	if got := counter("headgate.units"); !slices.Contains(got, "headgate.operation=take,headgate.outcome=allowed,headgate.policy=login 3") {
		t.Errorf("headgate.units: got %v, want 3 allowed units", got)
	}
}

// The event of a denied HTTP request is in the span of the request.
func TestSpanEvents(t *testing.T) {
	t.Parallel()
	o, _ := newObserver(t)
	limit, err := httplimit.New(memstore.New(nil), &httplimit.Options{Observer: o},
		httplimit.Charge{Policy: headgate.MustNamedPolicy("site", "1/1h"), Key: httplimit.Global()})
	if err != nil {
		t.Fatal(err)
	}
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	for range 2 {
		ctx, span := tracer.Start(context.Background(), "request")
		limit(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		span.End()
	}
	spans := recorder.Ended()
	if len(spans) != 2 || len(spans[1].Events()) != 1 {
		t.Fatalf("got %d spans, want 2 with one event each", len(spans))
	}
	event := spans[1].Events()[0]
	got := make(map[attribute.Key]string)
	for _, a := range event.Attributes {
		got[a.Key] = fmt.Sprint(a.Value.AsInterface())
	}
	want := map[attribute.Key]string{
		"headgate.policy": "site", "headgate.operation": "take", "headgate.outcome": "denied", "headgate.cost": "1", "headgate.remaining": "0",
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s: got %q, want %q", key, got[key], value)
		}
	}
	if event.Name != "headgate.decision" || got["headgate.retry_after_ms"] == "" {
		t.Errorf("got event %s with %v, want headgate.decision with headgate.retry_after_ms", event.Name, got)
	}
}

func TestPoliciesAreBounded(t *testing.T) {
	t.Parallel()
	o, counter := newObserver(t)
	for i := range 1100 {
		o.Observe(headgate.Event{Policy: fmt.Sprint("tenant-", i), Verb: "take", Err: errors.New("x")})
	}
	lines := counter("headgate.decisions")
	if others := "headgate.operation=take,headgate.outcome=failed,headgate.policy=others 100"; len(lines) != 1001 || !slices.Contains(lines, others) {
		t.Errorf("got %d series, want 1001 with %s", len(lines), others)
	}
}

func TestAllocations(t *testing.T) {
	o, _ := newObserver(t)
	e := headgate.Event{Policy: "login", Verb: "take", Cost: 1, Decision: headgate.Decision{Allowed: true}}
	if n := testing.AllocsPerRun(100, func() { o.Observe(e) }); n > 0 {
		t.Errorf("got %v allocations for each event, want 0", n)
	}
}
