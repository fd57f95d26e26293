package memstore

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// expireHolds ends the holds of a key that have expired at t, before an operation on k,
// the key's log. k may be nil. It returns the log for the operation: for a peek, that is
// a copy if a hold has expired, because a peek changes nothing. The caller holds sh.mu.
func (b *logBound) expireHolds(sh *logShard, k *keyLog, d digest, t int64, v headgate.Verb) *keyLog {
	holds := b.store.holds.shard(d)
	holds.mu.Lock()
	defer holds.mu.Unlock()
	held := holds.keys.get(d)
	switch {
	case held == nil:
	case v == headgate.Peek:
		return b.expireCopy(held, k, t)
	default:
		return b.changeHeld(sh, holds, held, k, d, t, func(a algo.Account) { b.store.expire(held, a, t, b.holds) })
	}
	return k
}

// resetHeld removes all holds of a key, whose log was dropped. If the key has leases,
// resetHeld returns a new log in which their units count.
func (b *logBound) resetHeld(sh *logShard, d digest, t int64) *keyLog {
	holds := b.store.holds.shard(d)
	holds.mu.Lock()
	defer holds.mu.Unlock()
	held := holds.keys.get(d)
	if held == nil {
		return nil
	}
	return b.changeHeld(sh, holds, held, nil, d, t, func(a algo.Account) { b.store.reset(held, a, t) })
}

// changeHeld calls change with the account of a key with holds. It returns the log of the
// key, which is created if units of a lease are charged, or nil. The caller holds both
// mutexes.
func (b *logBound) changeHeld(sh *logShard, holds *holdShard, held *heldKey, k *keyLog, d digest, t int64, change func(algo.Account)) *keyLog {
	a := expiringLog{LogAccount: algo.LogAccount{Step: b.step, Log: &sh.empty}, rule: b, home: sh, k: k, d: d, now: t}
	holds.bindLog(held, b)
	if k != nil {
		a.Log = &k.log
	}
	change(&a)
	sh.markChanged(d)
	if k = a.k; k != nil {
		k.resetAt = b.step.ResetAt(&k.log)
		k = b.store.logs.save(sh, d, k)
	}
	if len(held.ledger.Holds) == 0 {
		b.store.removeHeld(holds, held)
	}
	return k
}

// expireCopy returns k, or a copy of k after the holds that have expired at t were
// released.
func (b *logBound) expireCopy(held *heldKey, k *keyLog, t int64) *keyLog {
	if !held.releasesAt(t, b.holds) {
		return k
	}
	copied := &keyLog{}
	if k != nil {
		copied.log = *k.log.Clone()
	}
	held.ledger.ExpiredCopy(&algo.LogAccount{Step: b.step, Log: &copied.log}, t, b.holds.OnExpiry == headgate.ReleaseExpired)
	return copied
}

// dropHeld ends the holds of another key that have expired at t. It returns false if
// another goroutine uses the shard of the key's log. The caller holds the mutex of holds,
// and that of the shard locked, which may be nil.
func (b *logBound) dropHeld(holds *holdShard, locked *logShard, d digest, held *heldKey, t int64) bool {
	sh := b.store.logs.shard(d)
	if sh != locked {
		if !sh.mu.TryLock() {
			return false
		}
		defer sh.mu.Unlock()
	}
	b.changeHeld(sh, holds, held, sh.find(d, new(keyLog)), d, t, func(a algo.Account) { b.store.expire(held, a, t, b.holds) })
	return true
}
