package memcachedstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyAll takes from every op or from none; see [headgate.Store] and the package comment.
func (s *Store) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if len(decisions) != len(ops) {
		return fmt.Errorf("memcachedstore: %w: %d decisions for %d ops", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	q := &several{ops: make([]charge, len(ops)), decisions: make([]headgate.Decision, len(ops))}
	digests := make([]digest, len(ops))
	for i, op := range ops {
		b, ours := op.Bound.(*bound)
		if !ours || b.store != s {
			return fmt.Errorf("memcachedstore: %w: op %d is bound by another store", headgate.ErrInvalidPolicy, i+1)
		}
		q.ops[i], digests[i] = charge{bound: b, n: op.Cost}, b.scope.digest(op.Key)
	}
	keys := slices.Clone(digests)
	slices.SortFunc(keys, digest.compare)
	keys = slices.Compact(keys)
	for i, d := range digests {
		q.ops[i].cell, _ = slices.BinarySearchFunc(keys, d, digest.compare)
	}
	j := &job{now: now, peek: peek, several: q, done: make(chan struct{})}
	if err := s.do(ctx, j, keys); err != nil {
		return err
	}
	copy(decisions, q.decisions)
	return nil
}

// several is a request on several keys, all or none.
type several struct {
	ops       []charge
	decisions []headgate.Decision
}

// charge is one op of it, on one of its cells.
type charge struct {
	bound *bound
	cell  int
	n     int64
}

func (q *several) apply(cells []*cell, t int64, peek bool) {
	targets, charges := make([]algo.Target, len(cells)), make([]algo.Debit, len(q.ops))
	for i, c := range cells {
		targets[i].State, targets[i].Log = c.state, c.log
	}
	for i, op := range q.ops {
		charges[i] = algo.Debit{Step: op.bound.step, Log: op.bound.log, Target: &targets[op.cell], N: op.n}
	}
	all := algo.DebitAll(charges, t, peek, q.decisions)
	for i, op := range q.ops {
		q.decisions[i] = op.bound.named(q.decisions[i])
		if !peek {
			op.keep(cells[op.cell], &targets[op.cell], all)
		}
	}
}

// keep writes back what an op made of its cell; spent says that all ops were admitted.
func (op *charge) keep(c *cell, target *algo.Target, spent bool) {
	if spent && op.n > 0 {
		c.next.add(op.bound, op.n)
	}
	if op.bound.log == nil {
		c.keep(target.State, op.bound.step.ResetAt(target.State))
		return
	}
	c.trim(op.bound.store.mostEntries)
	c.keepLog(spent && op.n > 0, op.bound.log.ResetAt(c.log))
}
