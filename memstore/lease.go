package memstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// ApplyLease ends a lease, begins a lease, or both; see [headgate.LeaseStore]. A lease
// needs a slot or a log of its own: if there is no room for it, nothing is granted. A
// policy with this store needs no leases. Tests call the method, and so does the service
// for the rate limit quotas of Envoy.
func (s *Store) ApplyLease(_ context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	if s.closed.Load() {
		return headgate.LeaseResult{}, headgate.ErrClosed
	}
	for t := s.instant(now); ; {
		x := leaseTransaction{op: op, holdTransaction: holdTransaction{transaction: transaction{store: s, t: t, holdCall: true}}}
		if err := x.bind(); err != nil {
			return headgate.LeaseResult{}, err
		}
		if err := x.run(x.apply); !errors.Is(err, errRetry) {
			return x.result, err
		}
	}
}

// leaseTransaction is one attempt to execute an ApplyLease call.
type leaseTransaction struct {
	holdTransaction
	op     headgate.LeaseOp
	result headgate.LeaseResult
}

func (x *leaseTransaction) bind() error {
	err := x.bindOps(1, func(int) headgate.Op { return headgate.Op{Bound: x.op.Bound, Key: x.op.Key} })
	if err != nil {
		return err
	}
	if g := x.debits[0].rule; g != nil && !g.canLease {
		return fmt.Errorf("memstore: lease: %w: a lease requires %s", headgate.ErrUnsupported, algo.NamesWhere(headgate.Algorithm.CanLease))
	}
	return nil
}

func (x *leaseTransaction) apply() error {
	c := &x.debits[0]
	t, reserved := c.target, x.reserve()
	if t.held == nil && reserved > 0 {
		x.store.holds.used.Store(true)
		t.held = t.holds.add(t.d)
		t.held.log = c.logRule
	} else if reserved == 0 {
		x.op.Want = 0
	}
	ledger := t.ledger()
	if ledger == nil {
		ledger = new(algo.Ledger)
	}
	before := len(ledger.Holds)
	if reserved > 0 {
		ledger.Holds = withRoom(ledger.Holds)
	}
	out, err := ledger.Lease(t.account, x.t, &x.op, c.settings().MaxOpenOrDefault())
	ledger.Holds = trimmed(ledger.Holds)
	used := int64(len(ledger.Holds)-before) * holdBytes
	if reserved > holdBytes {
		used += heldKeyBytes
	}
	x.store.logs.bytes.Add(used - reserved)
	if reserved > holdBytes && len(ledger.Holds) == 0 {
		x.store.removeHeld(t.holds, t.held)
		t.held = nil
	}
	if err != nil {
		x.rollBack()
		return fmt.Errorf("memstore: %w", err)
	}
	x.result = headgate.LeaseResult{Decision: x.peek(), Units: out.Units, PreviousOpen: out.PreviousOpen}
	if out.Units > 0 {
		x.result.TTL = micros.Duration(out.Deadline - x.t)
		t.holds.watch(&t.held.due, out.Deadline)
	}
	x.storeAll()
	return nil
}

// reserve reserves the memory of a lease. It returns 0 if no lease may begin, or if there
// is no room.
func (x *leaseTransaction) reserve() int64 {
	t, logs := x.debits[0].target, &x.store.logs
	if x.op.ID == (headgate.HoldID{}) || t.slotKey != t.d || t.logShard == &logs.overflow {
		return 0
	}
	n := t.holds.bytesToOpen(t.d, t.held == nil, true)
	if !logs.reserveBytes(logs.shard(t.d), n, x.t) {
		return 0
	}
	return n
}

// peek returns the decision of a peek with cost 1 on the state after the transaction.
func (x *leaseTransaction) peek() headgate.Decision {
	c := &x.debits[0]
	if c.rule == nil {
		return c.withDeniedBy(c.logRule.step.Answer(c.target.log, x.t, 1, c.logRule.step.Fits(c.target.log, x.t, 1)))
	}
	s := c.target.account.(*algo.StateAccount).State
	_, ok := c.rule.step.Take(s, x.t, 1)
	return c.withDeniedBy(c.rule.step.Answer(s, x.t, 1, 0, ok))
}

// expiringLog is the [algo.Account] of a sliding log outside a transaction, whose holds
// expire. It creates the log if units of a lease are moved to its deadline.
type expiringLog struct {
	algo.LogAccount
	rule *logBound
	home *logShard
	k    *keyLog // nil if the key has no log
	d    digest
	now  int64
}

// Charge implements [algo.Account]. If there is no room, the units no longer count.
func (a *expiringLog) Charge(t, n int64) {
	logs := &a.rule.store.logs
	if n == 0 || max(t, a.ChargedAt())+a.rule.step.Params()[1] <= a.now {
		return
	}
	if a.k == nil {
		if a.k = logs.create(a.home, a.d, a.now, new(keyLog)); a.k == nil {
			return
		}
		a.Log = &a.k.log
	}
	logs.spendUnits(a.home, a.d, a.k, a.rule.step, t, n, true)
}
