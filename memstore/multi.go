package memstore

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyAll takes from every op or from none; see [headgate.Store]. It holds the locks of all shards that the keys are in, so no
// place is given away meanwhile, and the lock bits of all slots.
func (s *Store) ApplyAll(_ context.Context, now headgate.Instant, ops []headgate.Op, peek bool, decisions []headgate.Decision) error {
	if s.closed.Load() {
		return headgate.ErrClosed
	}
	if len(decisions) != len(ops) {
		return fmt.Errorf("memstore: %w: %d decisions for %d ops", headgate.ErrInvalidPolicy, len(decisions), len(ops))
	}
	for t := s.instant(now); ; {
		x := transaction{store: s, t: t, peek: peek}
		if err := x.read(ops); err != nil {
			return err
		}
		if err := x.run(decisions); !errors.Is(err, errGrown) {
			return err
		}
	}
}

// errGrown: a table was too small, and is larger now; the transaction begins anew.
var errGrown = errors.New("memstore: table has grown")

func (x *transaction) run(decisions []headgate.Decision) error {
	x.lockShards()
	defer x.unlockShards()
	if err := x.openAll(); err != nil {
		x.rollBack()
		if x.crowded != nil && x.crowded.grow(x.t) {
			return errGrown
		}
		return err
	}
	if allowed := x.decide(decisions); allowed && !x.peek {
		x.commit(decisions)
	} else {
		x.rollBack()
	}
	return nil
}

// transaction is one ApplyAll. Charges of the same key share a target.
type transaction struct {
	store     *Store
	t         int64
	peek      bool
	charges   []charge
	targets   []*target
	shards    []*shard
	logShards []*logShard
	crowded   *shard // a key found no place in it, though its table is not the largest
	spares    bool   // the lock for transactions that need spare buckets or logs is held
	spareLogs bool   // the lock of the spare logs is held
}

// charge is one op.
type charge struct {
	gate   *gate
	log    *logGate
	n      int64
	target *target
}

// named is what the charge's rule says of a decision.
func (c *charge) named(d headgate.Decision) headgate.Decision {
	if c.gate != nil {
		return c.gate.named(d)
	}
	return c.log.named(d)
}

// target is one key's state: a locked slot or a log.
type target struct {
	d     digest
	gate  *gate // of the first charge; nil for a log
	slot  *slot // locked; nil for a key without one in a peek
	seen  words
	home  digest     // the key that the slot is to hold: d, or the spare bucket's
	fresh bool       // the slot was another key's, or empty
	share bool       // the state is, or was until now, a spare bucket's
	state algo.State // as it was before
	total int64      // units of all its charges, once they are decided

	logKey  *logKey // nil if there is none yet
	logHome *logShard
	log     *algo.Log // what decides
}

func (x *transaction) read(ops []headgate.Op) error {
	x.charges = make([]charge, len(ops))
	for i, op := range ops {
		c := charge{n: op.Cost}
		var d digest
		var owner *Store
		switch b := op.Bound.(type) {
		case *gate:
			c.gate, d, owner = b, b.secret.sum(op.Key), b.store
		case *logGate:
			c.log, d, owner = b, b.secret.sum(op.Key), b.store
		}
		if owner != x.store {
			return fmt.Errorf("memstore: %w: op %d is bound by another store", headgate.ErrInvalidPolicy, i+1)
		}
		c.target = x.targetOf(d, c.gate)
		x.charges[i] = c
	}
	return nil
}

func (x *transaction) targetOf(d digest, g *gate) *target {
	for _, t := range x.targets {
		if t.d == d && (t.gate == nil) == (g == nil) {
			return t
		}
	}
	t := &target{d: d, home: d, gate: g}
	x.targets = append(x.targets, t)
	return t
}

// lockShards takes the locks in one order: shards of keys by place, then shards of logs.
func (x *transaction) lockShards() {
	of := make(map[int]int, len(x.targets)) // shard → keys in it
	logs := make(map[int]bool)
	for _, t := range x.targets {
		if t.gate == nil {
			logs[x.store.logs.index(t.d)] = true
		} else {
			of[x.store.keys.index(t.d)]++
		}
	}
	for _, i := range sortedKeys(of) {
		sh := &x.store.keys.shards[i]
		sh.mu.Lock()
		x.shards = append(x.shards, sh)
		if !x.peek {
			sh.growFor(of[i], x.t)
		}
	}
	for _, i := range sortedKeys(logs) {
		sh := &x.store.logs.shards[i]
		sh.mu.Lock()
		x.logShards = append(x.logShards, sh)
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
	if x.spares {
		x.store.spareMu.Unlock()
	}
	if x.spareLogs {
		x.store.logs.spare.mu.Unlock()
	}
}

// decide answers every charge as if it came after those before it, and reports whether all are allowed. Nothing is spent yet.
func (x *transaction) decide(decisions []headgate.Decision) bool {
	seen := make(map[*target]*algo.Target, len(x.targets))
	charges := make([]algo.Debit, len(x.charges))
	for i := range x.charges {
		c := &x.charges[i]
		if seen[c.target] == nil {
			seen[c.target] = &algo.Target{State: c.target.state, Log: c.target.log}
		}
		charges[i] = algo.Debit{Target: seen[c.target], N: c.n}
		if c.gate != nil {
			charges[i].Step = c.gate.step
		} else {
			charges[i].Log = c.log.step
		}
		c.target.total += c.n // where it overflows, the charge is denied
	}
	all := algo.DebitAll(charges, x.t, true, decisions)
	for i := range x.charges {
		decisions[i] = x.charges[i].named(decisions[i])
	}
	return all
}

// commit spends all charges, and answers them anew.
func (x *transaction) commit(decisions []headgate.Decision) {
	final := make(map[*target]algo.State, len(x.targets))
	for i := range x.charges {
		c := &x.charges[i]
		switch {
		case c.gate != nil: // also for 0 units, which carry the state of a changed limit over
			next, _ := c.gate.step.Take(c.stateIn(final), x.t, c.n)
			final[c.target] = next
		case c.n > 0:
			x.store.logs.spend(c.target.logHome, c.target.logKey, c.log.step, x.t, c.n)
		}
	}
	for i := range x.charges {
		c := &x.charges[i]
		if c.gate != nil {
			next := c.stateIn(final)
			if c.target.share && next != c.target.state {
				next = c.gate.rephase(next, x.t)
			}
			decisions[i] = c.gate.step.Answer(next, x.t, c.n, c.target.total, true)
			c.target.release(next, c.gate)
		} else {
			decisions[i] = c.log.step.Answer(c.target.log, x.t, c.n, true)
		}
	}
}

func (c *charge) stateIn(final map[*target]algo.State) algo.State {
	if s, ok := final[c.target]; ok {
		return s
	}
	return c.target.state
}

// release writes a slot's state and lets go of it; only the first call does anything.
func (t *target) release(next algo.State, g *gate) {
	if t.slot != nil {
		t.slot.assign(t.home, t.seen, g.pack(next))
		t.slot = nil
	}
}

// rollBack lets go of every slot as it was, but for what a changed limit carries over. One that was to be another key's is left
// as if never used, by nobody.
func (x *transaction) rollBack() {
	for _, t := range x.targets {
		switch {
		case t.slot == nil:
		case t.fresh:
			t.slot.assign(nobody, t.seen, words{})
		default:
			t.restore(x)
		}
	}
}

func (t *target) restore(x *transaction) {
	carried, _ := t.gate.step.Take(t.state, x.t, 0)
	if w := t.gate.pack(carried); !x.peek && !t.seen.holds(w) {
		t.slot.unlock(t.seen, w)
		return
	}
	t.slot.at.Store(t.seen.at)
}

// nobody is the digest of a slot that is free although it is not empty.
var nobody = digest{hi: 1}
