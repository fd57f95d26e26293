package tracing_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/tracing"
	"github.com/headgate/headgate/memstore"
)

// nothing is an observer that does nothing.
type nothing struct{}

func (nothing) Begin() int64          { return 1 }
func (nothing) Observe(*engine.Event) {}

// failing is a store whose calls fail.
type failing struct{ headgate.LeaseStore }

type failingBound struct{ headgate.Bound }

var errRefused = &headgate.StoreError{Reason: headgate.ReasonRefused, Err: errors.New("10.0.0.1:6379: secret")}

func (s failing) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.LeaseStore.Bind(rule)
	return failingBound{b}, err
}

func (failingBound) Apply(context.Context, headgate.Instant, string, headgate.Verb, int64) (headgate.Decision, error) {
	return headgate.Decision{}, errRefused
}

// newTraced returns a tracer, and an engine whose decisions it adds to spans.
func newTraced(t testing.TB, wrap func(headgate.Store) headgate.Store, options ...sdktrace.TracerProviderOption) (*tracing.Tracer, *engine.Engine) {
	t.Helper()
	tracer := tracing.New(sdktrace.NewTracerProvider(options...), "test")
	store := headgate.Store(memstore.New(nil))
	if wrap != nil {
		store = tracer.Store(wrap(store), "redis")
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(store, &engine.Options{Policies: map[string]headgate.Policy{"api": headgate.MustPolicy("1000000/1s")}})
	if err != nil {
		t.Fatal(err)
	}
	return tracer, e.WithObserver(tracer.Observer(nothing{}), 16)
}

var checks = []engine.Check{{Policy: "api", Key: "k", Cost: 1}}

// A failure of the store is an error of the span and of its child. Neither contains the
// text of the error.
func TestStoreFailure(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	tracer, e := newTraced(t, func(s headgate.Store) headgate.Store { return failing{s.(headgate.LeaseStore)} }, sdktrace.WithSpanProcessor(recorder))
	var a engine.Answer
	ctx, end := tracer.Command(t.Context(), "HG.CHECK", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	err := e.Decide(ctx, headgate.Take, checks, &a)
	end(err)
	if err == nil {
		t.Fatal("the store has decided")
	}
	spans := recorder.Ended()
	if len(spans) != 2 || spans[0].Parent().SpanID() != spans[1].SpanContext().SpanID() {
		t.Fatalf("got %d spans, want a request and its child", len(spans))
	}
	for _, s := range spans {
		want := attribute.String("error.type", "refused")
		if s.Status().Code != codes.Error || s.SpanContext().TraceID().String() != "0123456789abcdef0123456789abcdef" || s.Name() == "store take" && !slices.Contains(s.Attributes(), want) {
			t.Errorf("%s: got status %v, attributes %v, trace %v", s.Name(), s.Status(), s.Attributes(), s.SpanContext().TraceID())
		}
		for _, attr := range s.Attributes() {
			if attr.Value.String() == errRefused.Error() {
				t.Errorf("%s contains the text of the error", s.Name())
			}
		}
	}
}

// A request that is not sampled has no span for its calls of the store, and a decision
// without a span allocates nothing.
func TestUntracedRequests(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer, e := newTraced(t, func(s headgate.Store) headgate.Store { return s }, sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, end := tracer.Command(t.Context(), "HG.CHECK", "")
	defer end(nil)
	var a engine.Answer
	decide := func() {
		if err := e.Decide(ctx, headgate.Take, checks, &a); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, decide); n > 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
	if n := len(recorder.Ended()); n > 0 {
		t.Errorf("got %d spans, want none", n)
	}
}

// discard is an exporter that drops all spans.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

// BenchmarkDecide measures a decision in memory: without tracing, in a request that is
// not sampled, and in one that is.
func BenchmarkDecide(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"off": nil, "unsampled": sdktrace.NeverSample(), "sampled": sdktrace.AlwaysSample()} {
		b.Run(name, func(b *testing.B) {
			processor := sdktrace.NewBatchSpanProcessor(discard{})
			tracer, e := newTraced(b, nil, sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(processor))
			b.Cleanup(func() { _ = processor.Shutdown(context.Background()) })
			if sampler == nil {
				e = e.WithObserver(nothing{}, 16)
			}
			var a engine.Answer
			b.ReportAllocs()
			for b.Loop() {
				ctx, end := context.Background(), func(error) {}
				if sampler != nil {
					ctx, end = tracer.Command(ctx, "HG.CHECK", "")
				}
				err := e.Decide(ctx, headgate.Take, checks, &a)
				end(err)
			}
		})
	}
}
