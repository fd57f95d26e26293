package memstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyAll takes the cost of every op, or of none; see [headgate.Store]. It holds the
// mutexes of all shards that contain the keys, so that no slot is reassigned, and the
// lock bits of all their slots.
func (s *Store) ApplyAll(_ context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if s.closed.Load() {
		return headgate.ErrClosed
	}
	if len(decisions) != len(ops) {
		return fmt.Errorf("memstore: %w: %d decisions for %d ops", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	for t := s.instant(now); ; {
		x := transaction{store: s, t: t, peek: peek}
		if err := x.bindOps(len(ops), func(i int) headgate.Op { return ops[i] }); err != nil {
			return err
		}
		err := x.run(func() error {
			if allowed := x.decide(decisions); allowed && !x.peek {
				x.commit(decisions)
			} else {
				x.rollBack()
			}
			return nil
		})
		if !errors.Is(err, errRetry) {
			return err
		}
	}
}

// errRetry is the error of an attempt for which a table was too small and has been grown,
// or during which the first hold was opened. The transaction is then tried again.
var errRetry = errors.New("memstore: transaction must be tried again")

// run locks and loads all targets and calls body, which must release them by commit or
// rollBack.
func (x *transaction) run(body func() error) error {
	x.lockShards()
	defer x.unlockShards()
	if err := x.loadAll(); err != nil {
		x.rollBack()
		if x.fullShard != nil && x.fullShard.grow(x.t) {
			return errRetry
		}
		return err
	}
	x.expireHolds()
	return body()
}

// transaction is one attempt to execute an ApplyAll call. Debits of the same key share
// a target.
type transaction struct {
	store              *Store
	t                  int64
	peek               bool
	debits             []debit
	targets            []*target
	shards             []*shard
	logShards          []*logShard
	fullShard          *shard // shard that has no slot for a key but can still grow; may be nil
	overflowLocked     bool   // whether Store.overflowMu is held
	overflowLogsLocked bool   // whether the mutex of the overflow logs is held
	holdShards         []*holdShard
	holdCall           bool // whether the call is one of ApplyHolds
	holdsLocked        bool // whether the mutexes of the hold shards of all targets are held
}

// debit is one op of the call. Either rule or logRule is set.
type debit struct {
	rule    *slotBound
	logRule *logBound
	n       int64
	target  *target
}

// common returns the part of the debit's rule that all algorithms share.
func (c *debit) common() *ruleState {
	if c.rule != nil {
		return &c.rule.ruleState
	}
	return &c.logRule.ruleState
}

// settings returns the settings for holds of the debit's rule.
func (c *debit) settings() headgate.HoldSettings { return c.common().holds }

// withDeniedBy returns d, with DeniedBy set if d is a denial.
func (c *debit) withDeniedBy(d headgate.Decision) headgate.Decision {
	if c.rule != nil {
		return c.rule.withDeniedBy(d)
	}
	return c.logRule.withDeniedBy(d)
}

// target is the state of one key, or of several keys that share an overflow bucket or
// log.
type target struct {
	d        digest
	rule     *slotBound // rule of the first debit; nil for a sliding log
	slot     *slot      // locked slot; nil for a log, or for a key without a slot in a peek
	seen     words
	slotKey  digest     // digest to store in the slot: d, or the digest of the overflow bucket
	isNew    bool       // whether the slot was empty or belonged to another key
	overflow bool       // whether the state comes from or goes to an overflow bucket
	state    algo.State // state before this transaction
	total    int64      // units of all debits of the target, set by decide

	keyLog   *keyLog // nil if the key has no log
	logShard *logShard
	log      *algo.Log // log that determines the decisions

	held    *heldKey     // open holds of the key; nil if it has none
	peeked  *algo.Ledger // copy of the open holds in a peek for which some have expired; otherwise nil
	holds   *holdShard
	account algo.Account // set by expireHolds
}

// bindOps creates a debit for each of n ops, and their targets.
func (x *transaction) bindOps(n int, at func(i int) headgate.Op) error {
	x.debits = make([]debit, n)
	for i := range n {
		op := at(i)
		c := debit{n: op.Cost}
		var d digest
		var owner *Store
		switch b := op.Bound.(type) {
		case *slotBound:
			c.rule, d, owner = b, b.secret.sum(op.Key), b.store
		case *logBound:
			c.logRule, d, owner = b, b.secret.sum(op.Key), b.store
		}
		if owner != x.store {
			return fmt.Errorf("memstore: %w: op %d was bound by another store", headgate.ErrInvalidPolicy, i+1)
		}
		if c.rule != nil && c.rule.onlyHolds && !x.peek && !x.holdCall {
			return errHoldRequired("take")
		}
		c.target = x.targetOf(d, c.rule)
		x.debits[i] = c
	}
	return nil
}

func (x *transaction) targetOf(d digest, g *slotBound) *target {
	for _, t := range x.targets {
		if t.d == d && (t.rule == nil) == (g == nil) {
			return t
		}
	}
	t := &target{d: d, slotKey: d, rule: g}
	x.targets = append(x.targets, t)
	return t
}

// lockShards locks all shards in a fixed order: shards of slots by index, then shards
// of logs by index.
func (x *transaction) lockShards() {
	perShard := make(map[int]int, len(x.targets)) // index of a shard → number of its keys in this transaction
	logs := make(map[int]bool)
	x.holdsLocked = x.holdCall || x.store.holds.used.Load()
	for _, t := range x.targets {
		if t.rule == nil || x.holdCall {
			logs[x.store.logs.index(t.d)] = true
		}
		if t.rule != nil {
			perShard[x.store.keys.index(t.d)]++
		}
	}
	for _, i := range sortedKeys(perShard) {
		sh := &x.store.keys.shards[i]
		sh.mu.Lock()
		x.shards = append(x.shards, sh)
		if !x.peek {
			sh.growFor(perShard[i], x.t)
		}
	}
	for _, i := range sortedKeys(logs) {
		sh := &x.store.logs.shards[i]
		sh.mu.Lock()
		x.logShards = append(x.logShards, sh)
	}
	if x.holdsLocked {
		x.lockHoldShards()
	}
}

func (x *transaction) lockHoldShards() {
	shards := make(map[int]bool)
	for _, t := range x.targets {
		t.holds = x.store.holds.shard(t.d)
		shards[x.store.holds.index(t.d)] = true
	}
	for _, i := range sortedKeys(shards) {
		sh := &x.store.holds.shards[i]
		sh.mu.Lock()
		x.holdShards = append(x.holdShards, sh)
	}
	x.dropExpired(math.MaxInt, int64(len(x.targets))*roomPerKey)
	for _, t := range x.targets {
		t.held = t.holds.keys.get(t.d)
	}
}

func sortedKeys[V any](m map[int]V) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Ints(keys)
	return keys
}

func (x *transaction) unlockShards() {
	for _, sh := range x.shards {
		sh.mu.Unlock()
	}
	for _, sh := range x.logShards {
		sh.mu.Unlock()
	}
	for _, sh := range x.holdShards {
		sh.mu.Unlock()
	}
	if x.overflowLocked {
		x.store.overflowMu.Unlock()
	}
	if x.overflowLogsLocked {
		x.store.logs.overflow.mu.Unlock()
	}
}

// decide decides every debit as if the debits before it had been spent, and reports
// whether all are allowed. It spends nothing.
func (x *transaction) decide(decisions []headgate.Decision) bool {
	seen := make(map[*target]*algo.Target, len(x.targets))
	charges := make([]algo.Debit, len(x.debits))
	for i := range x.debits {
		c := &x.debits[i]
		if seen[c.target] == nil {
			seen[c.target] = &algo.Target{State: c.target.state, Log: c.target.log, Holds: c.target.ledger()}
		}
		charges[i] = algo.Debit{Target: seen[c.target], N: c.n}
		if c.rule != nil {
			charges[i].Step = c.rule.step
		} else {
			charges[i].Log = c.logRule.step
		}
		c.target.total += c.n // if this sum overflows, DebitAll denies the debit
	}
	all := algo.DebitAll(charges, x.t, true, decisions)
	for i := range x.debits {
		decisions[i] = x.debits[i].withDeniedBy(decisions[i])
	}
	return all
}

// commit spends all debits and replaces their decisions with those for the resulting
// states.
func (x *transaction) commit(decisions []headgate.Decision) {
	final := make(map[*target]algo.State, len(x.targets))
	for i := range x.debits {
		c := &x.debits[i]
		switch {
		case c.rule != nil:
			next, _ := c.rule.step.Take(c.stateIn(final), x.t, c.n)
			final[c.target] = next
		case c.n > 0:
			x.store.logs.spend(c.target.logShard, c.target.d, c.target.keyLog, c.logRule.step, x.t, c.n)
		}
	}
	for i := range x.debits {
		c := &x.debits[i]
		if c.rule != nil {
			next := c.stateIn(final)
			if c.target.overflow && next != c.target.state {
				next = c.rule.rephase(next, x.t)
			}
			decisions[i] = c.rule.step.Answer(next, x.t, c.n, c.target.total, true)
			c.target.observe(x.t, next, c.rule)
			c.target.release(x.store, next, c.rule)
		} else {
			decisions[i] = c.logRule.step.Answer(c.target.log, x.t, c.n, true)
			if c.target.held != nil {
				x.store.saveLog(c.target)
			}
		}
	}
}

func (c *debit) stateIn(final map[*target]algo.State) algo.State {
	if s, ok := final[c.target]; ok {
		return s
	}
	return c.target.state
}

// release writes the state next to the target's slot and unlocks the slot. Only the
// first call has an effect.
func (t *target) release(s *Store, next algo.State, g *slotBound) {
	if t.slot == nil {
		return
	}
	w := g.pack(next)
	if !t.isNew && t.held == nil {
		w = g.repack(t.seen, next)
	}
	if t.keepHeld(s, next, g) {
		w = heldWords
	}
	t.slot.assign(t.slotKey, t.seen, w)
	s.shardOf(t).changed(t.slot)
	t.slot = nil
}

// rollBack unlocks every slot without spending units. A slot that was allocated for a
// new key becomes free again, as does the memory of a new log.
func (x *transaction) rollBack() {
	for _, t := range x.targets {
		switch {
		case t.keyLog != nil && !x.peek:
			t.keyLog = x.store.logs.save(t.logShard, t.d, t.keyLog) // drops a log that was created for this call
		case t.slot == nil:
		case t.isNew:
			t.slot.assign(freeDigest, t.seen, words{})
			x.store.shardOf(t).changed(t.slot)
		default:
			t.releaseUnspent(x)
		}
	}
}

// releaseUnspent unlocks the target's slot without spending units. Except in a peek, it
// may extend the TTL of the state: see repack.
func (t *target) releaseUnspent(x *transaction) {
	if t.held != nil && !x.peek {
		t.release(x.store, t.state, t.rule)
		return
	}
	if t.seen.held() {
		t.slot.at.Store(t.seen.at)
		return
	}
	if w := t.rule.repack(t.seen, t.state); !x.peek && !t.seen.equals(w) {
		t.slot.unlock(t.seen, w)
		x.store.shardOf(t).changed(t.slot)
		return
	}
	t.slot.at.Store(t.seen.at)
}

// shardOf returns the shard of the target's slot.
func (s *Store) shardOf(t *target) *shard {
	if t.slotKey != t.d {
		return s.overflow.shard(t.slotKey)
	}
	return s.keys.shard(t.d)
}

// freeDigest is the digest of a slot that belongs to no key but has been used. Such a
// slot is not marked as empty, because a search ends at an empty slot.
var freeDigest = digest{hi: 1}
