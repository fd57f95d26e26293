package fallback

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

// ApplyAll spends the cost of every op or of none; see [headgate.Store]. While the
// store is unavailable, the strictest failure mode applies: if any rule has the mode
// closed, ApplyAll returns the error. Otherwise the rules with the mode local are
// decided together by the local store, and the rules with the mode open allow.
func (s *Store) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if len(decisions) != len(ops) {
		return fmt.Errorf("fallback: %w: %d decisions for %d ops; the numbers must be equal", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	if len(ops) == 0 {
		if s.closed.Load() {
			return headgate.ErrClosed
		}
		return ctx.Err()
	}
	inner, err := s.unwrapped(ops)
	if err != nil {
		return err
	}
	c, v := s.enter(ctx, storeCall{store: s.inner, ops: inner})
	if v.err != nil {
		return s.applyAllFailureMode(ctx, v, now, ops, peek, decisions)
	}
	defer c.end()
	err = s.inner.ApplyAll(c.ctx, now, inner, peek, decisions)
	if v = c.judge(err); v.err != nil {
		return s.applyAllFailureMode(ctx, v, now, ops, peek, decisions)
	}
	return nil
}

// unwrapped returns a copy of ops in which each Bound is replaced by the Bound of the
// inner store.
func (s *Store) unwrapped(ops []headgate.Op) ([]headgate.Op, error) {
	inner := make([]headgate.Op, len(ops))
	for i, op := range ops {
		b, err := s.boundOf(i, op.Bound)
		if err != nil {
			return nil, err
		}
		inner[i] = headgate.Op{Bound: b.inner, Key: op.Key, Cost: op.Cost}
	}
	return inner, nil
}

// boundOf returns the bound of op i of a call.
func (s *Store) boundOf(i int, b headgate.Bound) (*bound, error) {
	own, ok := b.(*bound)
	if !ok || own.store != s {
		return nil, fmt.Errorf("fallback: %w: op %d is bound by another store; Bind it on this one", headgate.ErrInvalidPolicy, i+1)
	}
	return own, nil
}

func (s *Store) applyAllFailureMode(ctx context.Context, v verdict, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if v.reason == headgate.ReasonNone {
		return v.err
	}
	local := make([]headgate.Op, 0, len(ops))
	for _, op := range ops {
		b := op.Bound.(*bound)
		if b.mode.Closed() {
			return v.err
		}
		if b.local != nil {
			local = append(local, headgate.Op{Bound: b.local, Key: op.Key, Cost: op.Cost})
		}
	}
	decided := make([]headgate.Decision, len(local))
	if len(local) > 0 {
		if err := s.local.ApplyAll(ctx, now, local, peek, decided); err != nil {
			return localError(err, v)
		}
	}
	for i, op := range ops {
		b := op.Bound.(*bound)
		if b.local == nil {
			decisions[i] = b.allow(v)
			continue
		}
		decisions[i], decided = decided[0], decided[1:]
		decisions[i].Degraded = v.reason
	}
	return nil
}
