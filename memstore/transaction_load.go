package memstore

import "github.com/headgate/headgate/algo"

// loadAll finds or creates the state of the key of every debit, and locks it.
func (x *transaction) loadAll() error {
	for i := range x.debits {
		c := &x.debits[i]
		var err error
		switch {
		case c.target.slot != nil || c.target.log != nil:
		case c.rule != nil:
			err = x.loadSlot(c.rule, c.target)
		default:
			err = x.loadLog(c.logRule, c.target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *transaction) loadSlot(g *slotBound, t *target) error {
	sh := x.store.keys.shard(t.d)
	if s := sh.table.Load().find(t.d); s != nil {
		t.slot = s
		t.seen = s.lockWait(t.d)
		if t.state = t.seen.state(); t.seen.held() {
			if !x.holdsLocked {
				return errRetry
			}
			t.state = t.held.account.State
		}
		return nil
	}
	t.state = x.overflowState(g, t)
	if t.state != (algo.State{}) {
		t.overflow = true
		x.store.overflowed.Add(1)
	}
	if x.peek {
		return nil
	}
	if t.claim(sh.allocateWithoutGrowth(t.d, x.t)) {
		return nil
	}
	if len(sh.table.Load().slots) < sh.maxSlots {
		x.fullShard = sh
		return errFull()
	}
	if x.holdsLocked {
		x.dropExpired(dropForSlot, unlimited)
		if t.claim(sh.allocateWithoutGrowth(t.d, x.t)) {
			return nil
		}
	}
	return x.loadOverflowSlot(g, t)
}

// claim assigns the locked slot s to the target. It writes the new digest immediately,
// because this transaction may also contain the key that the slot belonged to. It
// returns false if s is nil.
func (t *target) claim(s *slot, seen words) bool {
	if s == nil {
		return false
	}
	t.slot, t.seen, t.isNew = s, seen, true
	s.hi.Store(t.slotKey.hi)
	s.lo.Store(t.slotKey.lo)
	return true
}

// overflowState returns the state of the overflow bucket that belongs to the key of t.
// This transaction may itself have locked that bucket.
func (x *transaction) overflowState(g *slotBound, t *target) algo.State {
	home := g.overflowDigest(t.d)
	for _, other := range x.targets {
		if other.slot != nil && other.slotKey == home {
			return other.state
		}
	}
	return g.overflowState(t.d)
}

// loadOverflowSlot locks the overflow bucket that belongs to the key of t. Only one
// transaction at a time does so, because it locks several shards of overflow buckets.
func (x *transaction) loadOverflowSlot(g *slotBound, t *target) error {
	x.lockOverflow()
	if !t.overflow {
		x.store.overflowed.Add(1)
	}
	t.slotKey, t.overflow = g.overflowDigest(t.d), true
	for _, other := range x.targets {
		if other != t && other.slot != nil && other.slotKey == t.slotKey {
			x.mergeTargets(t, other)
			return nil
		}
	}
	sh := x.store.overflow.shard(t.slotKey)
	x.lockOverflowShard(sh)
	if s := sh.table.Load().find(t.slotKey); s != nil {
		t.slot = s
		t.seen = s.lockWait(t.slotKey)
		t.state = t.seen.state()
		return nil
	}
	t.state = algo.State{}
	if !t.claim(sh.allocateWithoutGrowth(t.slotKey, x.t)) {
		return errFull()
	}
	return nil
}

// mergeTargets makes the debits of t use the target other, because their keys share an
// overflow bucket or log.
func (x *transaction) mergeTargets(t, other *target) {
	for i := range x.debits {
		if c := &x.debits[i]; c.target == t {
			c.target = other
		}
	}
}

func (x *transaction) lockOverflowShard(sh *shard) {
	for _, held := range x.shards {
		if held == sh {
			return
		}
	}
	sh.mu.Lock()
	x.shards = append(x.shards, sh)
	sh.growFor(len(x.targets), x.t)
}

func (x *transaction) loadLog(g *logBound, t *target) error {
	logs := &x.store.logs
	sh, single := logs.shard(t.d), new(keyLog)
	if t.keyLog, t.logShard = sh.find(t.d, single), sh; t.keyLog == nil && logs.overflowUsed.Load() {
		x.lockOverflowLogs()
		if k := logs.overflow.active(g.overflowDigest(t.d), x.t); k != nil {
			t.keyLog, t.logShard = k, &logs.overflow
			x.store.overflowed.Add(1)
		}
	}
	switch {
	case x.peek:
	case t.keyLog != nil:
		t.logShard.keepAfter(max(x.t, g.step.ResetAt(&t.keyLog.log)-1), t.d, t.keyLog)
	default:
		if t.keyLog = logs.create(sh, t.d, x.t, single); t.keyLog == nil {
			return x.loadOverflowLog(g, t)
		}
	}
	return x.setLog(t, sh)
}

func (x *transaction) loadOverflowLog(g *logBound, t *target) error {
	logs := &x.store.logs
	logs.overflowUsed.Store(true)
	x.lockOverflowLogs()
	x.store.overflowed.Add(1)
	t.logShard = &logs.overflow
	if t.keyLog = logs.createOverflow(g.overflowDigest(t.d), x.t); t.keyLog == nil {
		return errFull()
	}
	return x.setLog(t, t.logShard)
}

// setLog sets the log that determines the decisions for a target: t.keyLog or, if that
// is nil, the empty log of the shard sh. If another target has the same log, because
// two keys share an overflow log, the two targets are merged.
func (x *transaction) setLog(t *target, sh *logShard) error {
	if t.keyLog == nil {
		t.log = &sh.empty
		return nil
	}
	for _, other := range x.targets {
		if other != t && other.keyLog == t.keyLog && other.log != nil {
			x.mergeTargets(t, other)
			return nil
		}
	}
	t.log = &t.keyLog.log
	return nil
}

// lockOverflow takes the mutex that must be held before locking any overflow shard or
// the overflow logs.
func (x *transaction) lockOverflow() {
	if !x.overflowLocked {
		x.store.overflowMu.Lock()
		x.overflowLocked = true
	}
}

func (x *transaction) lockOverflowLogs() {
	x.lockOverflow()
	if !x.overflowLogsLocked {
		x.store.logs.overflow.mu.Lock()
		x.overflowLogsLocked = true
	}
}
