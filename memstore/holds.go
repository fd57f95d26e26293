package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

const (
	// holdBytes is the memory of a hold: 64 bytes while it is open, and afterwards its
	// record with a part of the map entry of its key. Its deadline takes up to 48 bytes.
	holdBytes = 112
	// heldKeyBytes is the memory of a key with open holds, including its entry in the
	// index and without its holds.
	heldKeyBytes = 192
)

// holdRegion stores the open holds of all keys, and the holds that have ended before
// their deadline. Its memory counts towards the memory limit of the sliding logs.
//
// A key with open holds is marked in its slot, and its state is stored here instead. All
// other keys are not affected.
type holdRegion struct {
	shardList[holdShard]
	used atomic.Bool // true once a hold was opened
}

// holdShard is a part of the region. Its mutex is locked after the mutexes of shards of
// slots and of logs.
type holdShard struct {
	mu    sync.Mutex
	keys  holdKeyIndex
	ended map[digest]algo.Ended
	// spare is a key that was removed, whose memory the next key uses; may be nil.
	spare     *heldKey
	due       deadlines
	rebuildAt int          // number of deadlines at which rebuild is called
	next      atomic.Int64 // earliest of the deadlines, or an instant before it
}

// heldKey is a key with open holds.
type heldKey struct {
	digest  digest
	ledger  algo.Ledger
	account algo.StateAccount // state of the key; not used for a sliding log
	rule    *slotBound        // rule of the latest operation; nil for a sliding log
	log     *logBound         // rule of the first hold on a sliding log; nil for other algorithms
	// restored are the words of the state of a key that was restored, while its rule is
	// not known: rule and log are nil until the first operation. If restoredLog is true,
	// the state is a sliding log.
	restored    words
	restoredLog bool
}

// add adds a key without holds. sh.mu must be locked.
func (sh *holdShard) add(d digest) *heldKey {
	k := sh.spare
	if sh.spare = nil; k == nil {
		k = &heldKey{}
	}
	k.digest = d
	sh.keys.add(k)
	return k
}

func (r *holdRegion) stats() (holds int, bytes int64) {
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for k := range sh.keys.all {
			holds += len(k.ledger.Holds)
		}
		for _, records := range sh.ended {
			holds += len(records)
		}
		bytes += int64(sh.keys.count) * heldKeyBytes
		sh.mu.Unlock()
	}
	return holds, bytes + int64(holds)*holdBytes
}

// expire ends the holds of k that have expired by t. Their records are removed, so their
// memory is free.
func (s *Store) expire(k *heldKey, a algo.Account, t int64, settings headgate.HoldSettings) {
	ended := k.ledger.Expire(a, t, settings.OnExpiry == headgate.ReleaseExpired)
	s.logs.bytes.Add(-holdBytes * int64(ended))
}

// reset makes k unused, except for its leases.
func (s *Store) reset(k *heldKey, a algo.Account, t int64) {
	before := len(k.ledger.Holds)
	k.ledger.Reset(a, t)
	s.logs.bytes.Add(-holdBytes * int64(before-len(k.ledger.Holds)))
}

// applyHeld executes a request on a key with open holds. It returns false if the key has
// none anymore.
func (b *slotBound) applyHeld(d digest, r *algo.Request) (algo.Result, bool) {
	sh := b.store.holds.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys.get(d)
	if k == nil {
		return algo.Result{}, false
	}
	if r.Verb == algo.Peek {
		return b.peekHeld(k, r), true
	}
	k.rule = b
	a := &k.account
	a.Step = b.corrector
	b.store.expire(k, a, r.T, b.holds)
	out := algo.Apply(b.step, a.State, r)
	switch {
	case r.Verb == algo.Reset:
		b.store.reset(k, a, r.T)
		out.Next = a.State // not unused if the key has leases
	case out.Next != a.State:
		k.ledger.Set(a, r.T, out.Next)
		out.Next = a.State // a refund does not return units on lease
	}
	b.store.holdsChanged(d)
	b.store.moveToSlot(sh, d, k)
	return out, true
}

// peekHeld is applyHeld for a peek, which changes nothing: a hold that has expired at the
// instant of the peek may still be open for a later call with an earlier instant.
func (b *slotBound) peekHeld(k *heldKey, r *algo.Request) algo.Result {
	a := algo.StateAccount{Step: b.corrector, State: k.account.State}
	if k.releasesAt(r.T, b.holds) {
		k.ledger.Release(&a, r.T, b.holds.OnExpiry == headgate.ReleaseExpired)
	}
	return algo.Apply(b.step, a.State, r)
}

// releasesAt reports whether the state changes at t because a hold has expired or because
// of units on lease.
func (k *heldKey) releasesAt(t int64, settings headgate.HoldSettings) bool {
	return k.ledger.Leased() > 0 || settings.OnExpiry == headgate.ReleaseExpired && k.ledger.HasExpired(t)
}

// moveToSlot moves the state of k, the key with digest d, back to its slot if k has no
// open hold. If another goroutine is moving the slot, the state stays in the region until
// the next call. sh.mu must be locked.
func (s *Store) moveToSlot(sh *holdShard, d digest, k *heldKey) {
	if len(k.ledger.Holds) > 0 {
		return
	}
	if k.rule != nil {
		slot := s.keys.shard(d).find(d)
		if slot == nil {
			return
		}
		seen, ok := slot.read(d)
		if !ok || !slot.lock(seen) {
			return
		}
		slot.unlock(seen, k.rule.pack(k.account.State))
		s.keys.shard(d).changed(slot)
	}
	s.removeHeld(sh, k)
}

// removeHeld removes the key k, which has no open holds.
func (s *Store) removeHeld(sh *holdShard, k *heldKey) {
	sh.keys.remove(k.digest)
	k.ledger.Clear()
	k.rule, k.log, k.restored, k.restoredLog = nil, nil, words{}, false
	if cap(k.ledger.Holds) < 16 {
		sh.spare = k
	}
	s.logs.bytes.Add(-heldKeyBytes)
}

// end records that hold i of k ends at t, before its deadline. The key keeps the records
// of at most as many ended holds as it may have open ones. A private hold is not
// repeated, so it needs no record.
func (sh *holdShard) end(s *Store, k *heldKey, d digest, t int64, i int, op *headgate.HoldOp, settings headgate.HoldSettings) {
	if op.Private {
		s.logs.bytes.Add(-holdBytes)
		return
	}
	if sh.ended == nil {
		sh.ended = make(map[digest]algo.Ended)
	}
	h, before := &k.ledger.Holds[i], len(sh.ended[d])
	records := sh.ended[d].Add(algo.EndedHold{ID: h.ID, Deadline: h.Deadline}, t, settings.MaxOpenOrDefault())
	sh.ended[d] = records
	s.logs.bytes.Add(int64(len(records)-before-1) * holdBytes)
}
