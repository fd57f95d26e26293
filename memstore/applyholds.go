package memstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyHolds executes verb on every op; see [headgate.HoldStore]. It is one transaction,
// as in [Store.ApplyAll]. An operation on a hold needs an entry of the table, or a log,
// that no other key shares: if there is no room for it, ApplyHolds returns
// [headgate.ErrStoreFull].
func (s *Store) ApplyHolds(
	_ context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if s.closed.Load() {
		return 0, headgate.ErrClosed
	}
	if len(results) != len(ops) {
		return 0, fmt.Errorf("memstore: %w: %d results for %d ops", headgate.ErrInvalidPolicy, len(results), len(ops))
	}
	t := s.instant(now)
	for {
		x := holdTransaction{
			transaction: transaction{store: s, t: t, holdCall: true},
			verb:        verb, deadline: t + ttl.Microseconds(), ops: ops, results: results,
		}
		if err := x.bind(); err != nil {
			return 0, err
		}
		if err := x.run(x.apply); !errors.Is(err, errRetry) {
			return headgate.Instant(t), err
		}
	}
}

// holdTransaction is one attempt to execute an ApplyHolds call.
type holdTransaction struct {
	transaction
	verb     headgate.HoldVerb
	deadline int64 // deadline of a hold that is opened or extended
	ops      []headgate.HoldOp
	results  []headgate.HoldResult
	first    []int // result of firsts; nil before its first call
}

func (x *holdTransaction) bind() error {
	if err := x.bindOps(len(x.ops), func(i int) headgate.Op { return x.ops[i].Op }); err != nil {
		return err
	}
	err := algo.CheckLimits(x.verb, len(x.debits), func(i int) (*target, headgate.Limit) { return x.debits[i].target, x.debits[i].common().ruleLimit })
	if err != nil {
		return fmt.Errorf("memstore: %w", err)
	}
	for i := range x.debits {
		c := &x.debits[i]
		if c.rule != nil && c.rule.onlyHolds && x.verb > headgate.ExtendHold {
			return errHoldRequired("apply")
		}
		if !c.canHold(x.verb) {
			return fmt.Errorf("memstore: %w: a hold requires %s", headgate.ErrUnsupported, algo.NamesWhere(headgate.Algorithm.CanHold))
		}
		if x.verb == headgate.OpenHold {
			c.n = c.settings().ChargedUnits(c.n, x.ops[i].Bound.Limit())
		}
	}
	return nil
}

// canHold reports whether the algorithm of the debit supports verb. A leaky bucket has
// promised delays, so its charges cannot be corrected.
func (c *debit) canHold(verb headgate.HoldVerb) bool {
	switch {
	case c.rule == nil:
		return true
	case verb == headgate.Debit || verb == headgate.TakeUpTo:
		return c.rule.corrector != nil
	}
	return c.rule.corrector != nil && c.rule.canHold
}

func (x *holdTransaction) apply() error {
	var err error
	switch x.verb {
	case headgate.OpenHold:
		err = x.open()
	case headgate.CommitHold, headgate.ExtendHold:
		x.changeHolds()
	case headgate.TakeUpTo:
		x.takeUpTo()
	default:
		x.eachTarget(func(_ int, t *target, n int64) { t.change(x.t, n, func(a algo.Account) { a.Charge(x.t, n) }) })
		x.answer(false)
	}
	if err != nil {
		x.rollBack()
		return err
	}
	x.storeAll()
	return nil
}

// eachTarget calls do once for each target or, for verbs that use the id, once for each
// hold of a target. It passes the index of the first op and the sum of the costs.
func (x *holdTransaction) eachTarget(do func(i int, t *target, n int64)) {
	sums := x.sumsOf(func(i int) int64 { return x.debits[i].n })
	for i, first := range x.firsts() {
		if first == i {
			do(i, x.debits[i].target, sums[i])
		}
	}
}

// sumsOf returns the sums of the values of the ops that eachTarget combines, each at the
// index of the first op.
func (x *holdTransaction) sumsOf(value func(i int) int64) []int64 {
	sums := make([]int64, len(x.debits))
	for i, first := range x.firsts() {
		sums[first] = addCosts(sums[first], value(i))
	}
	return sums
}

// combined identifies the ops that eachTarget combines.
type combined struct {
	target *target
	id     headgate.HoldID // zero for verbs that do not use the id
}

// firsts returns, for each op, the index of the first op that eachTarget combines with
// it. A caller of ApplyHolds may pass thousands of ops, and the locks of their keys are
// held, so the time must be proportional to their number. The targets must be loaded.
func (x *holdTransaction) firsts() []int {
	if x.first != nil {
		return x.first
	}
	x.first = make([]int, len(x.debits))
	seen := make(map[combined]int, len(x.debits))
	for i := range x.debits {
		c := combined{target: x.debits[i].target}
		if x.verb <= headgate.ExtendHold {
			c.id = x.ops[i].ID
		}
		first, ok := seen[c]
		if !ok {
			first, seen[c] = i, i
		}
		x.first[i] = first
	}
	return x.first
}

// addCosts returns a + b, at most [headgate.MaxWindowUnits]. The decision was made with
// the exact sum.
func addCosts(a, b int64) int64 {
	return min(min(a, headgate.MaxWindowUnits)+min(b, headgate.MaxWindowUnits), headgate.MaxWindowUnits)
}

// change spends n units of the target at the instant at by calling do, and updates the
// open holds of the key. With no units, the state is not even converted to another limit.
func (t *target) change(at, n int64, do func(algo.Account)) {
	if n == 0 {
		return
	}
	if t.held != nil {
		t.held.ledger.Prepare(t.account, at)
	}
	do(t.account)
	if t.held != nil {
		t.held.ledger.Observe(t.account, at)
	}
}

// open opens a hold on every target, or on none.
func (x *holdTransaction) open() error {
	sums, deadlines := x.sums(), make([]int64, len(x.ops))
	if replayed, err := x.replayed(sums, deadlines); replayed || err != nil {
		if err == nil {
			x.answer(true)
			x.setDeadlines(deadlines)
		}
		return err
	}
	decisions := make([]headgate.Decision, len(x.ops))
	if !x.decide(decisions) {
		for i := range decisions {
			x.results[i] = headgate.HoldResult{Decision: decisions[i]}
		}
		return nil
	}
	if err := x.reserveHolds(); err != nil {
		return err
	}
	x.store.holds.used.Store(true)
	x.eachTarget(func(i int, t *target, n int64) {
		t.change(x.t, n, func(a algo.Account) { a.Take(x.t, n) })
		if t.held == nil {
			t.held = t.holds.add(t.d)
			t.held.log = x.debits[i].logRule
		}
		h := algo.Hold{ID: sums.ID(x.ops[i].ID), Deadline: x.deadline}
		h.Set(n, algo.PlainHold)
		t.holds.open(t.held, t.account, x.t, &h, x.ops[i].Private)
		deadlines[i] = x.deadline
	})
	x.answer(false)
	x.setDeadlines(deadlines)
	return nil
}

// setDeadlines sets the deadline of every result. The parameter has the deadline of each
// hold at the index of its first op.
func (x *holdTransaction) setDeadlines(deadlines []int64) {
	for i := range x.results {
		x.results[i].Deadline = headgate.Instant(deadlines[x.firsts()[i]])
	}
}

// sums returns the checksums of the holds to open.
func (x *holdTransaction) sums() algo.RequestChecksums {
	sums, costs := algo.RequestChecksums{}, x.sumsOf(func(i int) int64 { return x.ops[i].Cost })
	x.eachTarget(func(i int, t *target, _ int64) { sums.Add(x.ops[i].ID, t.d.lo, costs[i]) })
	return sums
}

// replayed reports whether the hold was opened before by the same request, and sets its
// deadlines. It returns [headgate.ErrHoldConflict] if another request opened it, and
// [headgate.ErrTooManyHolds] if a key has the maximum number of open holds.
func (x *holdTransaction) replayed(sums algo.RequestChecksums, deadlines []int64) (found bool, err error) {
	conflict, full := false, -1
	x.eachTarget(func(i int, t *target, _ int64) {
		id := sums.ID(x.ops[i].ID)
		known, ok := t.opened(id, x.t)
		found, conflict = found || ok, conflict || ok && known.ID != id
		deadlines[i] = known.Deadline
		if !ok && t.held != nil && len(t.held.ledger.Holds) >= x.debits[i].settings().MaxOpenOrDefault() {
			full = len(t.held.ledger.Holds)
		}
	})
	switch {
	case conflict:
		err = fmt.Errorf("memstore: %w: it was opened with other keys or costs;"+
			" use another id, or repeat the first request", headgate.ErrHoldConflict)
	case !found && full >= 0:
		err = fmt.Errorf("memstore: %w: the key has %d; commit or cancel some, or raise the maximum (max_open)", headgate.ErrTooManyHolds, full)
	}
	return found, err
}

// opened returns a hold that is open, or that has ended before its deadline.
func (t *target) opened(id headgate.HoldID, at int64) (algo.EndedHold, bool) {
	if t.held != nil {
		if i := t.held.ledger.Find(id); i >= 0 {
			return algo.EndedHold{ID: t.held.ledger.Holds[i].ID, Deadline: t.held.ledger.Holds[i].Deadline}, true
		}
	}
	return t.holds.records(t.d).Find(id, at)
}

// reserveHolds reserves the memory of one more hold for each target. It returns
// [headgate.ErrStoreFull] if there is no room, or if a key shares an overflow bucket.
func (x *holdTransaction) reserveHolds() (err error) {
	logs, reserved := &x.store.logs, int64(0)
	seen := make(map[*target]bool, len(x.targets))
	x.eachTarget(func(i int, t *target, _ int64) {
		n := int64(holdBytes)
		if !seen[t] { // all holds of one call have ids, or none has one
			n = t.holds.bytesToOpen(t.d, t.held == nil, x.ops[i].Private)
		}
		seen[t] = true
		switch {
		case err != nil:
		case t.slotKey != t.d, t.logShard == &logs.overflow, !logs.reserveBytes(logs.shard(t.d), n, x.t):
			err = errNoRoomForHold()
		default:
			reserved += n
		}
	})
	if err != nil {
		logs.bytes.Add(-reserved)
	}
	return err
}

func errNoRoomForHold() error {
	return fmt.Errorf("memstore: %w: no room for another hold; raise max_entries or max_bytes", headgate.ErrStoreFull)
}

// changeHolds commits or extends the hold of every op. A key may have several of them.
func (x *holdTransaction) changeHolds() {
	x.eachTarget(func(i int, t *target, n int64) { x.results[i] = x.changeHold(i, t, n) })
	for i := range x.results {
		x.results[i] = x.results[x.firsts()[i]]
		x.results[i].Decision = x.peekAfter(i)
	}
}

// changeHold commits or extends one hold of a target, whose first op is op i. It returns
// the result without the decision.
func (x *holdTransaction) changeHold(i int, t *target, n int64) (result headgate.HoldResult) {
	index, op := -1, &x.ops[i]
	if t.held != nil {
		index = t.held.ledger.Find(op.ID)
	}
	switch {
	case index < 0 && x.verb == headgate.CommitHold:
		if _, result.Replayed = t.holds.records(t.d).Find(op.ID, x.t); !result.Replayed {
			result.Err = headgate.ErrUnknownHold
		}
	case index < 0:
		result.Err = headgate.ErrUnknownHold
	case x.verb == headgate.ExtendHold:
		t.held.ledger.Extend(index, x.deadline)
		t.holds.watch(&t.held.due, x.deadline)
		result.Deadline = headgate.Instant(x.deadline)
	default:
		t.holds.end(x.store, t.held, t.account, x.t, index, op, n, x.debits[i].settings())
	}
	return result
}

// takeUpTo takes as many units as remain under every op, but at most the cost.
func (x *holdTransaction) takeUpTo() {
	granted := int64(1<<53 - 1)
	for i := range x.debits {
		c := &x.debits[i]
		granted = min(granted, c.n, c.target.account.Remaining(x.t)/x.opsOf(c.target))
	}
	x.eachTarget(func(_ int, t *target, _ int64) {
		units := granted * x.opsOf(t)
		t.change(x.t, units, func(a algo.Account) { a.Take(x.t, units) })
	})
	x.answer(false)
	for i := range x.results {
		x.results[i].Granted = granted
	}
}

// opsOf returns the number of ops of a target.
func (x *holdTransaction) opsOf(t *target) (n int64) {
	for i := range x.debits {
		if x.debits[i].target == t {
			n++
		}
	}
	return n
}

// answer writes the result of every op: the decision of a peek with cost 0.
func (x *holdTransaction) answer(replayed bool) {
	for i := range x.results {
		x.results[i] = headgate.HoldResult{Decision: x.peekAfter(i), Replayed: replayed}
	}
}

// peekAfter returns the decision of a peek with cost 0 on the state after the
// transaction.
func (x *holdTransaction) peekAfter(i int) headgate.Decision {
	c := &x.debits[i]
	if c.rule != nil {
		return c.target.ledger().Answer(c.rule.step, c.target.account.(*algo.StateAccount).State, x.t, 0, 0, true)
	}
	return c.logRule.step.Answer(c.target.log, x.t, 0, true)
}

// storeAll stores the states of all targets and unlocks their slots.
func (x *holdTransaction) storeAll() {
	for i := range x.debits {
		c := &x.debits[i]
		t := c.target
		if c.rule == nil {
			x.store.saveLog(t)
			continue
		}
		if t.slot == nil {
			continue
		}
		next := t.account.(*algo.StateAccount).State
		if t.overflow && next != t.state {
			next = c.rule.rephase(next, x.t)
		}
		switch {
		case t.held == nil && next == t.state && t.isNew:
			t.slot.assign(freeDigest, t.seen, words{})
			x.store.shardOf(t).changed(t.slot)
			t.slot = nil
		case t.held == nil && next == t.state:
			t.releaseUnspent(&x.transaction)
			t.slot = nil
		default:
			t.release(x.store, next, c.rule)
		}
	}
}
