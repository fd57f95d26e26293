package memstore

import "github.com/headgate/headgate/algo"

// openAll locks or finds the state of every key.
func (x *transaction) openAll() error {
	for i := range x.charges {
		c := &x.charges[i]
		var err error
		switch {
		case c.target.slot != nil || c.target.log != nil:
		case c.gate != nil:
			err = x.openSlot(c.gate, c.target)
		default:
			err = x.openLog(c.log, c.target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *transaction) openSlot(g *gate, t *target) error {
	sh := x.store.keys.shard(t.d)
	if s := sh.table.Load().find(t.d); s != nil {
		t.slot = s
		t.seen = s.hold(t.d)
		t.state = t.seen.state()
		return nil
	}
	t.state = x.spareState(g, t)
	t.share = t.state != (algo.State{})
	if x.peek {
		return nil
	}
	if t.take(sh.placeWithoutGrowth(t.d, x.t)) {
		return nil
	}
	if len(sh.table.Load().slots) < sh.most {
		x.crowded = sh
		return errFull()
	}
	return x.openSpareSlot(g, t)
}

// take makes a locked slot this target's. It bears the new key at once: the one that had it may be asked for in this request too.
func (t *target) take(s *slot, seen words) bool {
	if s == nil {
		return false
	}
	t.slot, t.seen, t.fresh = s, seen, true
	s.hi.Store(t.home.hi)
	s.lo.Store(t.home.lo)
	return true
}

// spareState is that of a key's spare bucket, which this transaction may have locked itself.
func (x *transaction) spareState(g *gate, t *target) algo.State {
	home := g.spareDigest(t.d)
	for _, other := range x.targets {
		if other.slot != nil && other.home == home {
			return other.state
		}
	}
	return g.spareState(t.d)
}

// openSpareSlot locks a key's spare bucket. One transaction at a time does so, since it takes several shards' locks.
func (x *transaction) openSpareSlot(g *gate, t *target) error {
	x.lockSpares()
	x.store.spilled.Add(1)
	t.home, t.share = g.spareDigest(t.d), true
	for _, other := range x.targets {
		if other != t && other.slot != nil && other.home == t.home {
			x.mergeTargets(t, other)
			return nil
		}
	}
	sh := x.store.spare.shard(t.home)
	x.lockSpare(sh)
	if s := sh.table.Load().find(t.home); s != nil {
		t.slot = s
		t.seen = s.hold(t.home)
		t.state = t.seen.state()
		return nil
	}
	t.state = algo.State{}
	if !t.take(sh.placeWithoutGrowth(t.home, x.t)) {
		return errFull()
	}
	return nil
}

// mergeTargets charges two keys of one request to the spare state that both have.
func (x *transaction) mergeTargets(t, other *target) {
	for i := range x.charges {
		if c := &x.charges[i]; c.target == t {
			c.target = other
		}
	}
}

func (x *transaction) lockSpare(sh *shard) {
	for _, held := range x.shards {
		if held == sh {
			return
		}
	}
	sh.mu.Lock()
	x.shards = append(x.shards, sh)
	sh.growFor(len(x.targets), x.t)
}

func (x *transaction) openLog(g *logGate, t *target) error {
	logs := &x.store.logs
	sh := logs.shard(t.d)
	if t.logKey, t.logHome = sh.keys[t.d], sh; t.logKey == nil && logs.shared.Load() {
		x.lockSpareLogs()
		if k := logs.spare.live(g.spareDigest(t.d), x.t); k != nil {
			t.logKey, t.logHome = k, &logs.spare
		}
	}
	switch {
	case x.peek:
	case t.logKey != nil:
		t.logKey.resetAt = max(t.logKey.resetAt, x.t+1) // so that opening another log does not sweep it
	default:
		if t.logKey = logs.open(sh, t.d, x.t); t.logKey == nil {
			return x.openSpareLog(g, t)
		}
	}
	return x.useLog(t, sh)
}

func (x *transaction) openSpareLog(g *logGate, t *target) error {
	logs := &x.store.logs
	logs.shared.Store(true)
	x.lockSpareLogs()
	x.store.spilled.Add(1)
	t.logHome = &logs.spare
	if t.logKey = logs.openSpare(g.spareDigest(t.d), x.t); t.logKey == nil {
		return errFull()
	}
	return x.useLog(t, t.logHome)
}

// useLog lets a target be decided by its log, or by the empty one of its shard. Two keys may have the same spare log.
func (x *transaction) useLog(t *target, sh *logShard) error {
	if t.logKey == nil {
		t.log = &sh.empty
		return nil
	}
	for _, other := range x.targets {
		if other != t && other.logKey == t.logKey && other.log != nil {
			x.mergeTargets(t, other)
			return nil
		}
	}
	t.log = &t.logKey.log
	return nil
}

// lockSpares comes before any lock of a spare shard or of the spare logs.
func (x *transaction) lockSpares() {
	if !x.spares {
		x.store.spareMu.Lock()
		x.spares = true
	}
}

func (x *transaction) lockSpareLogs() {
	x.lockSpares()
	if !x.spareLogs {
		x.store.logs.spare.mu.Lock()
		x.spareLogs = true
	}
}
