package tracing

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// outcome is the outcome of a request. If several decisions are made for one request,
// the attributes describe the one with the largest outcome, the last of them.
type outcome uint8

const (
	none outcome = iota
	allowed
	shadow
	degraded
	refused
	undecided
	denied
)

// String returns the value of the attribute headgate.outcome. All values except refused
// are those of the label outcome in the metrics.
func (o outcome) String() string {
	return [...]string{"", "allowed", "shadow", "degraded", "refused", "undecided", "denied"}[o]
}

// Observer returns an observer that passes events to next, and adds the decision to the
// span of the request.
func (t *Tracer) Observer(next engine.Observer) engine.Observer { return observer{next} }

type observer struct{ engine.Observer }

func (o observer) Observe(e *engine.Event) {
	o.Observer.Observe(e)
	if r := requestOf(e.Context()); r != nil {
		r.describe(e)
	}
}

// describe adds the decision of an event to the span.
func (r *request) describe(e *engine.Event) {
	outcome, i := outcomeOf(e)
	if outcome < r.outcome {
		return
	}
	r.outcome = outcome
	attributes := append(make([]attribute.KeyValue, 0, 8),
		attribute.String("headgate.operation", e.Operation.String()), attribute.String("headgate.outcome", outcome.String()))
	if e.Err != nil {
		kind := strings.ReplaceAll(engine.ErrorKindOf(e.Err).String(), " ", "_")
		if outcome == undecided {
			kind = engine.StoreErrorReason(e.Err)
			r.span.SetStatus(codes.Error, kind)
		}
		attributes = append(attributes, attribute.String("error.type", kind))
	}
	r.span.SetAttributes(append(attributes, limitAttributes(e, i)...)...)
}

// outcomeOf returns the outcome of an event, and the index in e.Rules of the limit that
// caused it: the first limit that denied the request, or the limit with the fewest
// remaining units. The index is -1 if there is none.
func outcomeOf(e *engine.Event) (o outcome, limit int) {
	if e.Err != nil {
		if engine.ErrorKindOf(e.Err) != engine.StoreFailure {
			return refused, -1
		}
		return undecided, min(0, len(e.Rules())-1)
	}
	o, limit = allowed, -1
	if isShadowDenied(e) {
		o = shadow
	}
	decisions := e.Decisions()
	for i := range e.Rules() {
		switch d := &decisions[i]; {
		case e.Denied(i):
			if c := e.Check(i); c == nil || !c.Shadow {
				return denied, i
			}
			return max(o, shadow), i
		case d.Degraded != headgate.ReasonNone:
			o = degraded
		}
		if limit < 0 || decisions[i].Remaining < decisions[limit].Remaining {
			limit = i
		}
	}
	return o, limit
}

// isShadowDenied reports whether a policy in shadow mode would have denied the request.
func isShadowDenied(e *engine.Event) bool {
	shadows := e.Shadows()
	for i := range shadows {
		if shadows[i].DeniedBy != nil {
			return true
		}
	}
	return false
}

// limitAttributes returns the attributes of a limit, and of its decision if there is
// one.
func limitAttributes(e *engine.Event, i int) []attribute.KeyValue {
	if i < 0 {
		return shadowAttributes(e)
	}
	rule := e.Rules()[i]
	limit := rule.Limit
	attributes := make([]attribute.KeyValue, 0, 6)
	if c := e.Check(i); c != nil {
		if c.Reported != nil {
			limit = *c.Reported
		}
		if c.Rule != "" {
			attributes = append(attributes, attribute.String("headgate.rule", c.Rule))
		}
	}
	if rule.Policy != "" {
		attributes = append(attributes, attribute.String("headgate.policy", rule.Policy))
	}
	attributes = append(attributes, attribute.String("headgate.limit", limit.String()))
	if e.Err != nil {
		return attributes
	}
	d := &e.Decisions()[i]
	attributes = append(attributes, attribute.Int64("headgate.remaining", d.Remaining))
	if !d.Allowed {
		attributes = append(attributes, attribute.Int64("headgate.retry_after_ms", int64((d.RetryAfter+time.Millisecond-1)/time.Millisecond)))
	}
	if d.Degraded != headgate.ReasonNone {
		attributes = append(attributes, attribute.String("headgate.degraded", d.Degraded.String()))
	}
	return attributes
}

// shadowAttributes returns the attributes of the first policy in shadow mode that would
// have denied the request.
func shadowAttributes(e *engine.Event) []attribute.KeyValue {
	shadows := e.Shadows()
	for i := range shadows {
		if by := shadows[i].DeniedBy; by != nil {
			return []attribute.KeyValue{attribute.String("headgate.policy", by.Policy), attribute.String("headgate.limit", by.Limit.String())}
		}
	}
	return nil
}
