package lease

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// ApplyAll spends the cost of every op, or of none; see [headgate.Store]. Ops that leases
// cover are decided in memory. One call to the inner store decides the others. If an op
// was denied in memory, that call is a peek. With a time from the caller, the inner store
// decides all ops.
func (s *Store) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if !slices.ContainsFunc(ops, func(op headgate.Op) bool { return isLeased(op.Bound) }) {
		return s.inner.ApplyAll(ctx, now, ops, peek, decisions)
	}
	if len(decisions) != len(ops) {
		return fmt.Errorf("lease: %w: %d decisions for %d ops; the numbers must be equal", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m := multi{store: s, ops: ops, decisions: decisions, parts: make([]part, len(ops))}
	denied := false
	if now == headgate.StoreClock {
		denied = m.decide(peek)
	}
	err := m.askStore(ctx, now, peek || denied)
	if err != nil || !peek && slices.ContainsFunc(decisions, func(d headgate.Decision) bool { return !d.Allowed }) {
		m.undo()
	}
	return err
}

func isLeased(b headgate.Bound) bool {
	_, ok := b.(*bound)
	return ok
}

// multi is one call of ApplyAll.
type multi struct {
	store     *Store
	ops       []headgate.Op
	decisions []headgate.Decision
	parts     []part
}

// part is one op of the call.
type part struct {
	decided      bool      // from memory
	lease        *keyLease // whose units were spent, or nil
	spentVersion int64     // see keyLease.undo
}

// decide decides in memory what the leases cover, and reports whether an op was denied.
func (m *multi) decide(peek bool) (denied bool) {
	now := m.store.clock()
	for i, op := range m.ops {
		b, ok := op.Bound.(*bound)
		if !ok || b.store != m.store {
			continue
		}
		hash, p := b.hash(op.Key), &m.parts[i]
		c := b.store.keys.find(b, op.Key, hash)
		switch {
		case c == nil && !peek:
			b.countRequest(op.Key, hash)
		case c == nil:
		case peek:
			m.decisions[i], p.decided = c.peek(now, op.Cost)
		default:
			p.take(c, now, op.Cost, &m.decisions[i])
		}
		denied = denied || p.decided && !m.decisions[i].Allowed
	}
	return denied
}

func (p *part) take(c *keyLease, now, cost int64, d *headgate.Decision) {
	spentVersion := c.spentVersion.Load()
	if *d, p.decided = c.decide(now, cost); !p.decided {
		c.missed.Add(cost)
		c.renewIfDue(now)
		return
	}
	if d.Allowed {
		p.lease, p.spentVersion = c, spentVersion
	}
}

// askStore lets the inner store decide all ops that were not decided in memory.
func (m *multi) askStore(ctx context.Context, now headgate.Instant, peek bool) error {
	inner := make([]headgate.Op, 0, len(m.ops))
	for i, op := range m.ops {
		if m.parts[i].decided {
			continue
		}
		var err error
		if op.Bound, err = m.store.unwrapped(i, op.Bound); err != nil {
			return err
		}
		inner = append(inner, op)
	}
	if len(inner) == 0 {
		return nil
	}
	results := make([]headgate.Decision, len(inner))
	if err := m.store.inner.ApplyAll(ctx, now, inner, peek, results); err != nil {
		return err
	}
	for i := range m.ops {
		if !m.parts[i].decided {
			m.decisions[i], results = results[0], results[1:]
		}
	}
	return nil
}

// unwrapped returns the Bound of the inner store for op i of a call.
func (s *Store) unwrapped(i int, b headgate.Bound) (headgate.Bound, error) {
	own, ok := b.(*bound)
	switch {
	case !ok:
		return b, nil
	case own.store == s:
		return own.Bound, nil
	}
	return nil, fmt.Errorf("lease: %w: op %d is bound by another store; Bind it on this one", headgate.ErrInvalidPolicy, i+1)
}

// undo returns the units that were spent in memory.
func (m *multi) undo() {
	for i := range m.parts {
		if p := &m.parts[i]; p.lease != nil {
			p.lease.undo(m.ops[i].Cost, p.spentVersion)
			d := &m.decisions[i]
			d.Remaining = min(d.Remaining+m.ops[i].Cost, d.Limit)
		}
	}
}

// renewIfDue begins a renewal if the time of the next call has come.
func (c *keyLease) renewIfDue(now int64) {
	if now >= c.last.Load().nextCall {
		c.renew(now)
	}
}

// ApplyHolds executes verb on every op; see [headgate.HoldStore]. Holds are not leased:
// the inner store executes them.
func (s *Store) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if !slices.ContainsFunc(ops, func(op headgate.HoldOp) bool { return isLeased(op.Bound) }) {
		return s.inner.ApplyHolds(ctx, now, verb, ttl, ops, results)
	}
	inner := make([]headgate.HoldOp, len(ops))
	for i, op := range ops {
		var err error
		if op.Bound, err = s.unwrapped(i, op.Bound); err != nil {
			return 0, err
		}
		inner[i] = op
	}
	return s.inner.ApplyHolds(ctx, now, verb, ttl, inner, results)
}
