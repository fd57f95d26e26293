package tracing

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/headgate/headgate"
)

// Store returns a store that calls inner. The calls of a request whose span is recorded
// have spans of their own. system is the name of the database, such as redis. A store
// without leases is returned unchanged.
func (t *Tracer) Store(inner headgate.Store, system string) headgate.Store {
	leases, ok := inner.(headgate.LeaseStore)
	if !ok {
		return inner
	}
	return &store{leases, t.tracer, attribute.String("db.system.name", system)}
}

// store is a store whose calls are spans.
type store struct {
	inner  headgate.LeaseStore
	tracer trace.Tracer
	system attribute.KeyValue
}

// start starts the span of a call for n keys. It returns nil if the request is not
// recorded.
func (s *store) start(ctx context.Context, operation string, n int) trace.Span {
	if requestOf(ctx) == nil {
		return nil
	}
	_, span := s.tracer.Start(ctx, "store "+operation, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		s.system, attribute.String("db.operation.name", operation), attribute.Int("headgate.store.keys", n)))
	return span
}

// end ends the span of a call. The text of an error is not recorded, because it may
// contain the address of the store.
func end(span trace.Span, err error) {
	if span == nil {
		return
	}
	if cause := (*headgate.StoreError)(nil); errors.As(err, &cause) {
		span.SetAttributes(attribute.String("error.type", cause.Reason.String()))
		span.SetStatus(codes.Error, cause.Reason.String())
	}
	span.End()
}

// Bind binds a rule to the inner store.
func (s *store) Bind(rule headgate.Rule) (headgate.Bound, error) {
	inner, err := s.inner.Bind(rule)
	if err != nil {
		return nil, err
	}
	b := &bound{inner, s}
	if holds, ok := inner.(headgate.HoldBound); ok {
		return &holdBound{b, holds}, nil
	}
	return b, nil
}

// unwrap returns a rule of the inner store. A rule of another store is returned
// unchanged, for the error of the inner store.
func (s *store) unwrap(b headgate.Bound) headgate.Bound {
	switch b := b.(type) {
	case *bound:
		return b.Bound
	case *holdBound:
		return b.bound.Bound
	}
	return b
}

// ApplyAll calls the inner store within a span.
func (s *store) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	inner := make([]headgate.Op, len(ops))
	for i, op := range ops {
		op.Bound = s.unwrap(op.Bound)
		inner[i] = op
	}
	verb := headgate.Take
	if peek {
		verb = headgate.Peek
	}
	span := s.start(ctx, verb.String(), len(ops))
	err := s.inner.ApplyAll(ctx, now, inner, peek, decisions)
	end(span, err)
	return err
}

// ApplyHolds calls the inner store within a span.
func (s *store) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	inner := make([]headgate.HoldOp, len(ops))
	for i, op := range ops {
		op.Bound = s.unwrap(op.Bound)
		inner[i] = op
	}
	span := s.start(ctx, verb.String(), len(ops))
	at, err := s.inner.ApplyHolds(ctx, now, verb, ttl, inner, results)
	end(span, err)
	return at, err
}

// ApplyLease calls the inner store within a span.
func (s *store) ApplyLease(ctx context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	op.Bound = s.unwrap(op.Bound)
	span := s.start(ctx, "lease", 1)
	result, err := s.inner.ApplyLease(ctx, now, op)
	end(span, err)
	return result, err
}

// Close closes the inner store.
func (s *store) Close() error { return s.inner.Close() }

// Shared reports whether other processes may use the state in the inner store.
func (s *store) Shared() bool { return headgate.Shared(s.inner) }

// bound is a rule of the inner store.
type bound struct {
	headgate.Bound
	store *store
}

// Apply calls the inner store within a span.
func (b *bound) Apply(ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64) (headgate.Decision, error) {
	span := b.store.start(ctx, verb.String(), 1)
	d, err := b.Bound.Apply(ctx, now, key, verb, cost)
	end(span, err)
	return d, err
}

// Reserve calls the inner store within a span.
func (b *bound) Reserve(
	ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	span := b.store.start(ctx, "reserve", 1)
	d, token, err := b.Bound.Reserve(ctx, now, key, cost, maxDelay)
	end(span, err)
	return d, token, err
}

// Cancel calls the inner store within a span.
func (b *bound) Cancel(
	ctx context.Context, now headgate.Instant, key string, cost int64, token headgate.ReservationToken,
) (headgate.Decision, error) {
	span := b.store.start(ctx, "cancel", 1)
	d, err := b.Bound.Cancel(ctx, now, key, cost, token)
	end(span, err)
	return d, err
}

// Node returns the name of the server that stores the key.
func (b *bound) Node(key string) string { return headgate.NodeOf(b.Bound, key) }

// holdBound is a bound with the faster way to execute an operation on a hold.
type holdBound struct {
	*bound
	holds headgate.HoldBound
}

// ApplyHold calls the inner store within a span.
func (b *holdBound) ApplyHold(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, op headgate.HoldOp,
) (headgate.HoldResult, headgate.Instant, error) {
	op.Bound = b.holds
	span := b.store.start(ctx, verb.String(), 1)
	result, at, err := b.holds.ApplyHold(ctx, now, verb, ttl, op)
	end(span, err)
	return result, at, err
}
