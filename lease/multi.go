package lease

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate"
)

// ApplyAll spends the cost of every op, or of none; see [headgate.Store]. Ops that leases
// cover are decided in memory. One call to the inner store decides the others. If an op
// was denied in memory, that call is a peek. With a time from the caller, the inner store
// decides all ops.
func (s *Store) ApplyAll(
	ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision,
) error {
	if !slices.ContainsFunc(ops, func(op headgate.Op) bool { return isLeased(op.Bound) }) {
		return s.inner.ApplyAll(ctx, now, ops, peek, decisions)
	}
	if len(decisions) != len(ops) {
		const format = "lease: %w: %d decisions for %d ops; the numbers must be equal"
		return fmt.Errorf(format, headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m := multi{store: s, ops: ops, decisions: decisions, states: make([]opState, len(ops))}
	denied := now == headgate.StoreClock && m.decide(peek)
	err := m.applyInner(ctx, now, peek || denied)
	if err != nil || !peek && slices.ContainsFunc(decisions, func(d headgate.Decision) bool { return !d.Allowed }) {
		m.unspend()
	}
	return err
}

// multi is one call of ApplyAll.
type multi struct {
	store     *Store
	ops       []headgate.Op
	decisions []headgate.Decision
	states    []opState
}

// opState is the state of one op of the call.
type opState struct {
	decided bool       // the op was decided from memory
	spent   *leasedKey // the key whose lease has spent the cost, or nil
	version int64      // see leasedKey.unspend
}

// decide decides in memory what the leases cover, and reports whether an op was denied.
func (m *multi) decide(peek bool) (denied bool) {
	now, verb := m.store.clock(), headgate.Take
	if peek {
		verb = headgate.Peek
	}
	for i, op := range m.ops {
		b, ok := op.Bound.(*leasedBound)
		if !ok || b.store != m.store {
			continue
		}
		if k := b.find(op.Key, verb); k != nil {
			m.decideOp(i, k, now, verb)
		}
		denied = denied || m.states[i].decided && !m.decisions[i].Allowed
	}
	return denied
}

// decideOp decides op i, whose key is k, if that is possible in memory.
func (m *multi) decideOp(i int, k *leasedKey, now int64, verb headgate.Verb) {
	s, cost, version := &m.states[i], m.ops[i].Cost, k.spentVersion.Load()
	m.decisions[i], s.decided = k.decide(now, verb, cost)
	switch {
	case verb == headgate.Peek:
	case !s.decided:
		k.uncovered.Add(cost)
		k.renewIfDue(now)
	case m.decisions[i].Allowed:
		s.spent, s.version = k, version
	}
}

// applyInner lets the inner store decide all ops that were not decided in memory.
func (m *multi) applyInner(ctx context.Context, now headgate.Instant, peek bool) error {
	inner, err := m.innerOps()
	if len(inner) == 0 || err != nil {
		return err
	}
	results := make([]headgate.Decision, len(inner))
	if err := m.store.inner.ApplyAll(ctx, now, inner, peek, results); err != nil {
		return err
	}
	for i := range m.ops {
		if !m.states[i].decided {
			m.decisions[i], results = results[0], results[1:]
		}
	}
	return nil
}

// innerOps returns the ops that were not decided in memory, bound to the inner store.
func (m *multi) innerOps() (inner []headgate.Op, err error) {
	for i, op := range m.ops {
		if m.states[i].decided {
			continue
		}
		if op.Bound, err = m.store.innerBound(i, op.Bound); err != nil {
			return nil, err
		}
		inner = append(inner, op)
	}
	return inner, nil
}

// unspend returns the units that were spent in memory to the leases.
func (m *multi) unspend() {
	for i, s := range m.states {
		if s.spent != nil {
			s.spent.unspend(m.ops[i].Cost, s.version)
			d := &m.decisions[i]
			d.Remaining = min(d.Remaining+m.ops[i].Cost, d.Limit)
		}
	}
}
