package memstore

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// ApplyHold executes verb on one key; see [headgate.HoldBound]. The usual cases lock only
// the mutex of the hold shard. All other cases use a transaction, as [Store.ApplyHolds]
// does.
func (b *slotBound) ApplyHold(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, op headgate.HoldOp,
) (result headgate.HoldResult, at headgate.Instant, err error) {
	t := b.store.instant(now)
	done := false
	if verb <= headgate.CommitHold && b.canHold && !b.store.closed.Load() {
		d := b.secret.sum(op.Key)
		if verb == headgate.OpenHold {
			done = b.openFast(d, t, t+ttl.Microseconds(), &op, &result)
		} else {
			done = b.commitFast(d, t, &op, &result)
		}
	}
	if !done {
		return b.applyHoldSlow(ctx, headgate.Instant(t), verb, ttl, op)
	}
	return result, headgate.Instant(t), nil
}

func (b *slotBound) applyHoldSlow(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, op headgate.HoldOp,
) (headgate.HoldResult, headgate.Instant, error) {
	var results [1]headgate.HoldResult
	at, err := b.store.ApplyHolds(ctx, now, verb, ttl, []headgate.HoldOp{op}, results[:])
	if err == nil {
		err = results[0].Err
	}
	return results[0], at, err
}

// answerHeld sets d to the decision of a peek with cost 0 on k.
func (b *slotBound) answerHeld(k *heldKey, t int64, d *headgate.Decision) {
	if b.onlyHolds {
		*d = k.ledger.Answer(b.step, k.account.State, t, 0, 0, true)
	} else {
		*d = b.step.Answer(k.account.State, t, 0, 0, true)
	}
}

// openFast opens a hold on a key that has a slot in the table, if the units are
// available and there is room, and if no hold of the key has expired, is a lease or has
// the same id. If done is false, the key is unchanged.
func (b *slotBound) openFast(d digest, t, deadline int64, op *headgate.HoldOp, result *headgate.HoldResult) (done bool) {
	sh := b.store.holds.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys.get(d)
	if !b.mayOpen(sh, k, d, op, t) {
		return false
	}
	units := b.holds.ChargedUnits(op.Cost, b.limit)
	n := sh.bytesToOpen(d, k == nil, op.Private)
	if k == nil {
		if k = b.addHeld(sh, d, t, units, n); k == nil {
			return false
		}
	} else if !b.takeHeld(k, t, units, n) {
		return false
	}
	h := algo.Hold{ID: openedID(d, op), Deadline: deadline}
	h.Set(units, algo.PlainHold)
	sh.open(k, &k.account, t, &h, op.Private)
	b.store.holdsChanged(d)
	b.answerHeld(k, t, &result.Decision)
	result.Deadline = headgate.Instant(deadline)
	return true
}

// openedID returns the id with which the hold of op on one key is stored. No other
// request has the id of a private hold, so that needs no checksum.
func openedID(d digest, op *headgate.HoldOp) headgate.HoldID {
	if op.Private {
		return op.ID
	}
	sums := algo.RequestChecksums{}
	sums.Add(op.ID, d.lo, addCosts(op.Cost, 0))
	return sums.ID(op.ID)
}

// mayOpen reports whether the key may have another hold, and none of its holds has
// expired, is a lease or has the same id. k is nil if the key has no holds.
func (b *slotBound) mayOpen(sh *holdShard, k *heldKey, d digest, op *headgate.HoldOp, t int64) bool {
	if !op.Private {
		if _, ended := sh.records(d).Find(op.ID, t); ended || k != nil && k.ledger.Find(op.ID) >= 0 {
			return false
		}
	}
	return k == nil || len(k.ledger.Holds) < b.holds.MaxOpenOrDefault() && !k.ledger.NeedsExpire(t)
}

// takeHeld takes units of a key with open holds, and reserves the given memory.
func (b *slotBound) takeHeld(k *heldKey, t, units, memory int64) bool {
	next, ok := b.step.Take(k.account.State, t, units)
	if !ok || !b.store.logs.reserveFast(memory) {
		return false
	}
	k.account.Step, k.rule = b.corrector, b
	if next != k.account.State { // a hold of no units does not convert the state to its limit
		k.ledger.Set(&k.account, t, next)
	}
	return true
}

// addHeld takes the units of the first open hold of a key from the key's slot in the
// table, marks the slot, and reserves the given memory. It returns nil if that fails.
func (b *slotBound) addHeld(sh *holdShard, d digest, t, units, memory int64) *heldKey {
	slot := b.store.keys.shard(d).find(d)
	if slot == nil {
		return nil
	}
	seen, ok := slot.read(d)
	if !ok || seen.held() {
		return nil
	}
	next, ok := b.step.Take(seen.state(), t, units)
	if !ok || !slot.lock(seen) {
		return nil
	}
	if !b.store.logs.reserveFast(memory) {
		slot.at.Store(seen.at)
		return nil
	}
	if !b.store.holds.used.Load() {
		b.store.holds.used.Store(true)
	}
	k := sh.add(d)
	k.account, k.rule = algo.StateAccount{Step: b.corrector, State: next}, b
	slot.unlock(seen, heldWords)
	b.store.keys.shard(d).changed(slot)
	return k
}

// commitFast ends an open hold of a key, if no hold of the key has expired and none is a
// lease. If done is false, the key is unchanged.
func (b *slotBound) commitFast(d digest, t int64, op *headgate.HoldOp, result *headgate.HoldResult) (done bool) {
	sh := b.store.holds.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys.get(d)
	if k == nil || k.ledger.NeedsExpire(t) {
		return false
	}
	i := k.ledger.Find(op.ID)
	if i < 0 {
		return false
	}
	k.account.Step, k.rule = b.corrector, b
	sh.end(b.store, k, &k.account, t, i, op, op.Cost, b.holds)
	b.answerHeld(k, t, &result.Decision)
	b.store.holdsChanged(d)
	b.store.moveToSlot(sh, d, k)
	return true
}
