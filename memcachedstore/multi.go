package memcachedstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyAll takes the cost of every op, or of none; see [headgate.Store]. The package
// comment describes the effect of concurrent changes.
func (s *Store) ApplyAll(ctx context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if len(decisions) != len(ops) {
		return fmt.Errorf("memcachedstore: %w: len(decisions) is %d; must be %d, one for each op", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	q := &multiKey{ops: make([]multiOp, len(ops)), decisions: make([]headgate.Decision, len(ops))}
	digests := make([]digest, len(ops))
	for i, op := range ops {
		b, err := s.boundOf(i, op.Bound)
		if err != nil {
			return err
		}
		if b.onlyHolds && !peek {
			return errHoldRequired("take")
		}
		q.ops[i], digests[i] = multiOp{bound: b, n: op.Cost}, b.scope.digest(op.Key)
	}
	keys, cells := sortedKeys(digests)
	for i := range q.ops {
		q.ops[i].cell = cells[i]
	}
	j := &job{now: now, peek: peek, multi: q, done: make(chan struct{})}
	if err := s.do(ctx, j, keys); err != nil {
		return err
	}
	copy(decisions, q.decisions)
	return nil
}

// boundOf returns the bound of op i of a call.
func (s *Store) boundOf(i int, b headgate.Bound) (*bound, error) {
	own, ok := b.(*bound)
	if !ok || own.store != s {
		return nil, fmt.Errorf("memcachedstore: %w: op %d is bound to another store; bind its rule to this store", headgate.ErrInvalidPolicy, i+1)
	}
	return own, nil
}

// sortedKeys returns the different digests in ascending order, and for each digest its
// index in the result.
func sortedKeys(digests []digest) (keys []digest, cells []int) {
	keys = slices.Clone(digests)
	slices.SortFunc(keys, digest.compare)
	keys = slices.Compact(keys)
	cells = make([]int, len(digests))
	for i, d := range digests {
		cells[i], _ = slices.BinarySearchFunc(keys, d, digest.compare)
	}
	return keys, cells
}

// multiKey is a request on several keys that is allowed on all of them or denied.
type multiKey struct {
	ops       []multiOp
	decisions []headgate.Decision
}

// multiOp is one op of a multiKey. The field cell is the index of its key.
type multiOp struct {
	bound *bound
	cell  int
	n     int64
}

func (q *multiKey) apply(cells []*cell, t int64, peek bool) {
	targets, debits := make([]algo.Target, len(cells)), make([]algo.Debit, len(q.ops))
	for i, op := range q.ops {
		c := cells[op.cell]
		if peek {
			c = c.expired(op.bound, t)
		} else {
			c.expire(op.bound, t)
		}
		targets[op.cell].State, targets[op.cell].Log, targets[op.cell].Holds = c.state, c.log, &c.ledger
		debits[i] = algo.Debit{Step: op.bound.step, Log: op.bound.log, Target: &targets[op.cell], N: op.n}
	}
	all := algo.DebitAll(debits, t, peek, q.decisions)
	for i, op := range q.ops {
		q.decisions[i] = op.bound.withDeniedBy(q.decisions[i])
		if !peek {
			op.store(cells[op.cell], t, &targets[op.cell], all)
		}
	}
}

// store stores the new value of op's key at t in its cell c. spent is whether all ops
// were allowed, and so whether their costs are spent.
func (op *multiOp) store(c *cell, t int64, target *algo.Target, spent bool) {
	if spent && op.n > 0 {
		c.pendingDebit.add(op.bound, op.n)
	}
	if op.bound.log == nil {
		c.set(op.bound, t, target.State)
		return
	}
	c.trim(c.maxEntries(op.bound.store))
	c.keepLog(spent && op.n > 0, max(c.leasedUntil(op.bound), op.bound.log.ResetAt(c.log)))
}
