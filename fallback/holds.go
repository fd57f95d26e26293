package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

// ApplyHolds executes verb on every op; see [headgate.HoldStore]. While the inner store
// is unavailable, the strictest failure mode of all rules applies, as in
// [Store.ApplyAll]. With the failure mode open, a hold is allowed and charges nothing.
// With the failure mode local, it is opened in the local store.
//
// A hold is committed or extended in the store that opened it. If the inner store opened
// it and is unavailable, the decision is degraded and the hold stays open: repeat the
// commit, or the hold expires. If the inner store does not know a hold, ApplyHolds uses
// the local store. A hold that the failure mode open has allowed is in no store, so
// ApplyHolds returns [headgate.ErrUnknownHold]; the methods of the [headgate.Hold] itself
// return its decision instead, also after its deadline.
//
// ApplyHolds returns [headgate.ErrUnsupported] if the inner store, or the local store in
// the mode local, does not support holds.
func (s *Store) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if len(results) != len(ops) {
		return 0, fmt.Errorf("fallback: %w: %d results for %d ops; the numbers must be equal", headgate.ErrInvalidPolicy, len(results), len(ops))
	}
	if s.closed.Load() {
		return 0, headgate.ErrClosed
	}
	if len(ops) == 0 {
		return 0, ctx.Err()
	}
	q := holdCall{store: s, now: now, verb: verb, ttl: ttl, ops: ops, results: results}
	inner, err := q.unwrapped()
	if err != nil {
		return 0, err
	}
	return q.apply(ctx, inner)
}

// holdCall is one call of ApplyHolds.
type holdCall struct {
	store   *Store
	now     headgate.Instant
	verb    headgate.HoldVerb
	ttl     time.Duration
	ops     []headgate.HoldOp
	results []headgate.HoldResult
}

// unwrapped returns the ops with the Bounds of the inner store.
func (q *holdCall) unwrapped() ([]headgate.HoldOp, error) {
	inner := make([]headgate.HoldOp, len(q.ops))
	for i, op := range q.ops {
		b, err := q.store.boundOf(i, op.Bound)
		if err != nil {
			return nil, err
		}
		inner[i] = op
		inner[i].Bound = b.inner
	}
	return inner, nil
}

func (q *holdCall) apply(ctx context.Context, inner []headgate.HoldOp) (headgate.Instant, error) {
	s, ok := q.store.inner.(headgate.HoldStore)
	if !ok {
		return 0, fmt.Errorf("fallback: %w: the inner store does not support holds", headgate.ErrUnsupported)
	}
	plain := make([]headgate.Op, len(inner))
	for i := range inner {
		plain[i] = inner[i].Op
	}
	c, v := q.store.enter(ctx, storeCall{store: q.store.inner, ops: plain})
	if v.err != nil {
		return q.applyFailureMode(ctx, v)
	}
	defer c.end()
	at, err := s.ApplyHolds(c.ctx, q.now, q.verb, q.ttl, inner, q.results)
	if v = c.judge(err); v.err != nil {
		return q.applyFailureMode(ctx, v)
	}
	return at, q.changeLocal(ctx)
}

// changeLocal commits or extends the holds of the call in the local store as well,
// because it may have opened them, or have opened them again after a reply was lost.
func (q *holdCall) changeLocal(ctx context.Context) error {
	if q.verb > headgate.ExtendHold || q.verb == headgate.OpenHold || !q.store.holdsLocally.Load() {
		return nil
	}
	results, _, err := q.applyLocal(ctx)
	if err != nil {
		return fmt.Errorf("fallback: change a hold locally: %w", err)
	}
	for i, op := range q.ops {
		if op.Bound.(*bound).local == nil {
			continue
		}
		local := results[0]
		if results = results[1:]; local.Err == nil && errors.Is(q.results[i].Err, headgate.ErrUnknownHold) {
			q.results[i].Err, q.results[i].Replayed = nil, local.Replayed
		}
	}
	return nil
}

// applyLocal executes the call in the local store, for the ops whose rules have the mode
// local. It returns their results.
func (q *holdCall) applyLocal(ctx context.Context) ([]headgate.HoldResult, headgate.Instant, error) {
	var local []headgate.HoldOp
	for _, op := range q.ops {
		if b := op.Bound.(*bound); b.local != nil {
			op.Bound, op.Private = b.local, false // a degraded commit is repeated
			local = append(local, op)
		}
	}
	if len(local) == 0 {
		return nil, root.InstantNow(q.now), nil
	}
	s, ok := q.store.local.(headgate.HoldStore)
	if !ok {
		return nil, 0, fmt.Errorf("fallback: %w: the local store does not support holds", headgate.ErrUnsupported)
	}
	if q.verb == headgate.OpenHold {
		q.store.holdsLocally.Store(true)
	}
	results := make([]headgate.HoldResult, len(local))
	at, err := s.ApplyHolds(ctx, q.now, q.verb, q.ttl, local, results)
	return results, at, err
}

// applyFailureMode executes the call by the failure modes of the rules, after the inner
// store failed with v.
func (q *holdCall) applyFailureMode(ctx context.Context, v verdict) (headgate.Instant, error) {
	if v.reason == headgate.ReasonNone {
		return 0, v.err
	}
	for _, op := range q.ops {
		if op.Bound.(*bound).mode.Closed() {
			return 0, v.err
		}
	}
	results, at, err := q.applyLocal(ctx)
	if err != nil {
		return 0, localError(err, v)
	}
	for i, op := range q.ops {
		if b := op.Bound.(*bound); b.local == nil {
			q.results[i] = headgate.HoldResult{Decision: b.allow(v), Granted: op.Cost}
			continue
		}
		q.results[i], results = results[0], results[1:]
		q.results[i].Degraded = v.reason
		if q.verb != headgate.OpenHold { // the inner store may have opened the hold
			q.results[i].Err = nil
		}
	}
	return at, nil
}
