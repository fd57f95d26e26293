// Package otelheadgate records the decisions of limiters with OpenTelemetry: as metrics,
// and as events of the current span of a trace. It is a module of its own, so that
// programs without OpenTelemetry do not depend on it.
//
// An [Observer] is the observer of a limiter or of a middleware:
//
//	observer, err := otelheadgate.New(nil)
//	limiter, err := headgate.New(store, policy, &headgate.Options{Observer: observer})
//
// The metrics are the counters headgate.decisions and headgate.units. They have the
// attributes headgate.policy, headgate.operation and headgate.outcome. A recorded span
// that is in the context of a call gets an event headgate.decision with the same
// attributes, and the cost, the remaining units, and the wait after a denial. No
// attribute contains a key.
package otelheadgate

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/headgate/headgate"
)

// Scope is the name of the instrumentation scope.
const Scope = "github.com/headgate/headgate/otelheadgate"

// The values of the attribute headgate.outcome.
const (
	Allowed  = "allowed"
	Denied   = "denied"
	Degraded = "degraded" // allowed by the failure mode, while the store was unavailable
	Failed   = "failed"   // there was no decision
)

// Others is the value of headgate.policy after the first 1,000 policies, so that programs
// with a policy for each tenant do not create an unlimited number of series.
const Others = "others"

const maxPolicies = 1000

// Options are the settings of an observer. A field with its zero value has the default in
// its comment; nil options mean all defaults.
type Options struct {
	// MeterProvider provides the meter; nil means the global provider of package otel.
	MeterProvider metric.MeterProvider
}

// Observer is a [headgate.ContextObserver]. It is created with [New] and may be used
// concurrently. A decision allocates nothing after the first one with the same policy,
// operation and outcome, unless its span is recorded.
type Observer struct {
	decisions, units metric.Int64Counter
	sets             sync.Map // series → []metric.AddOption
	policies         sync.Map // names that have a series
	known            atomic.Int64
}

var _ headgate.ContextObserver = (*Observer)(nil)

// series are the attributes of one time series.
type series struct{ policy, operation, outcome string }

// New returns an observer. It returns an error if the provider does not create the
// instruments. opts may be nil.
func New(opts *Options) (*Observer, error) {
	opts = cmp.Or(opts, &Options{})
	provider := opts.MeterProvider
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	meter := provider.Meter(Scope)
	o := &Observer{}
	var err error
	if o.decisions, err = meter.Int64Counter("headgate.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Operations of limiters, by policy, operation and outcome.")); err != nil {
		return nil, err
	}
	o.units, err = meter.Int64Counter("headgate.units", metric.WithUnit("{unit}"),
		metric.WithDescription("Units that these operations have requested."))
	return o, err
}

// Observe records an event without a context.
func (o *Observer) Observe(e headgate.Event) { o.ObserveContext(context.Background(), e) }

// ObserveContext records an event, and adds it to the span in ctx.
func (o *Observer) ObserveContext(ctx context.Context, e headgate.Event) {
	outcome := outcomeOf(&e)
	options := o.optionsOf(series{e.Policy, e.Verb, outcome})
	o.decisions.Add(ctx, 1, options...)
	o.units.Add(ctx, e.Cost, options...)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("headgate.decision", trace.WithAttributes(eventAttributes(&e, outcome)...))
	}
}

func outcomeOf(e *headgate.Event) string {
	switch {
	case e.Err != nil:
		return Failed
	case !e.Decision.Allowed:
		return Denied
	case e.Decision.Degraded != headgate.ReasonNone:
		return Degraded
	}
	return Allowed
}

// optionsOf returns the attributes of a series. It creates them for the first event.
func (o *Observer) optionsOf(s series) []metric.AddOption {
	if known, ok := o.sets.Load(s); ok {
		return known.([]metric.AddOption)
	}
	if !o.admit(s.policy) {
		s.policy = Others
	}
	set := attribute.NewSet(attribute.String("headgate.policy", s.policy), attribute.String("headgate.operation", s.operation),
		attribute.String("headgate.outcome", s.outcome))
	options, _ := o.sets.LoadOrStore(s, []metric.AddOption{metric.WithAttributeSet(set)})
	return options.([]metric.AddOption)
}

// admit reports whether a policy has series of its own.
func (o *Observer) admit(policy string) bool {
	if _, ok := o.policies.Load(policy); ok {
		return true
	}
	if o.known.Add(1) > maxPolicies {
		o.known.Add(-1)
		return false
	}
	if _, known := o.policies.LoadOrStore(policy, struct{}{}); known {
		o.known.Add(-1) // another goroutine was first
	}
	return true
}

// eventAttributes returns the attributes of the event of a span.
func eventAttributes(e *headgate.Event, outcome string) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("headgate.policy", e.Policy), attribute.String("headgate.operation", e.Verb),
		attribute.String("headgate.outcome", outcome), attribute.Int64("headgate.cost", e.Cost),
	}
	if e.Err != nil {
		return all
	}
	d := &e.Decision
	all = append(all, attribute.Int64("headgate.remaining", d.Remaining))
	if !d.Allowed {
		all = append(all, attribute.Int64("headgate.retry_after_ms", int64((d.RetryAfter+time.Millisecond-1)/time.Millisecond)))
	}
	if d.Degraded != headgate.ReasonNone {
		all = append(all, attribute.String("headgate.degraded", d.Degraded.String()))
	}
	return all
}
