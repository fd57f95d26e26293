package memstore

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// The memory that is counted for holds. TestMemoryOfHolds compares it with the memory
// that they need.
const (
	// holdBytes is the memory of an open hold.
	holdBytes = 64
	// heldKeyBytes is the memory of a key with open holds, without its holds: 192 bytes,
	// up to 22 in the index, and up to 16 in the heap.
	heldKeyBytes = 232
	// recordBytes is the memory of the record of a hold that has ended: 24 bytes, and
	// room for others.
	recordBytes = 32
	// endedKeyBytes is the memory of a key with records, without these: 64 bytes, up to
	// 58 in the map, and up to 16 in the heap. It is reserved with the first open hold
	// that gets a record. So the memory in use never rises when a hold ends, except once
	// for each key whose open holds were restored.
	endedKeyBytes = 144
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
	ended map[digest]*endedKey
	// spare is a key that was removed, whose memory the next key uses; may be nil.
	spare *heldKey
	due   dueHeap
	next  atomic.Int64 // earliest of the deadlines, or an instant before it
}

// heldKey is a key with open holds.
type heldKey struct {
	due
	ledger  algo.Ledger
	account algo.StateAccount // state of the key; not used for a sliding log
	rule    *slotBound        // rule of the latest operation; nil for a sliding log
	log     *logBound         // rule of the first hold on a sliding log; nil for other algorithms
	// restored is the state of a key that was restored, while its rule is not known: rule
	// and log are nil until the first operation. It is nil for other keys.
	restored *restoredKey
}

// endedKey is a key with records of holds that have ended before their deadlines, or with
// open holds that will get a record.
type endedKey struct {
	due
	records algo.Ended
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

// addEnded returns the key with digest d that has records, which is added if necessary.
func (sh *holdShard) addEnded(d digest) *endedKey {
	e := sh.ended[d]
	if e != nil {
		return e
	}
	if sh.ended == nil {
		sh.ended = make(map[digest]*endedKey)
	}
	e = &endedKey{due: due{digest: d}}
	sh.ended[d] = e
	return e
}

// removeEnded removes a key without records and without open holds.
func (s *Store) removeEnded(sh *holdShard, e *endedKey) {
	sh.unwatch(&e.due)
	delete(sh.ended, e.digest)
	s.logs.bytes.Add(-endedKeyBytes)
}

// records returns the records of the holds of a key that have ended.
func (sh *holdShard) records(d digest) algo.Ended {
	if e := sh.ended[d]; e != nil {
		return e.records
	}
	return nil
}

// bytesToOpen returns the memory of one more open hold of the key with digest d. isNew is
// whether the key has no open hold.
func (sh *holdShard) bytesToOpen(d digest, isNew, private bool) int64 {
	n := int64(holdBytes)
	if isNew {
		n += heldKeyBytes
	}
	if !private && sh.ended[d] == nil {
		n += endedKeyBytes
	}
	return n
}

// open opens a hold of the key k, whose memory was reserved.
func (sh *holdShard) open(k *heldKey, a algo.Account, t int64, h *algo.Hold, private bool) {
	k.ledger.Holds = withRoom(k.ledger.Holds)
	k.ledger.Open(a, t, h.ID, h.Units(), h.Deadline)
	sh.watch(&k.due, h.Deadline)
	if !private {
		sh.addEnded(k.digest)
	}
}

// withRoom returns list with room for another element.
func withRoom[S ~[]T, T any](list S) S {
	if len(list) < cap(list) {
		return list
	}
	return resized[S](list)
}

// trimmed returns list without memory that it does not need, if that is more than half.
func trimmed[S ~[]T, T any](list S) S {
	if cap(list) < 16 || len(list) >= cap(list)/2 {
		return list
	}
	return resized[S](list)
}

// resized returns list with room for another element, and for an eighth of its elements.
func resized[S ~[]T, T any](list S) S {
	return append(slices.Grow(S(nil), len(list)+1+len(list)/8), list...)
}

func (r *holdRegion) stats() (holds int, bytes int64) {
	records := 0
	for i := range r.shards {
		sh := &r.shards[i]
		sh.mu.Lock()
		for k := range sh.keys.all {
			holds += len(k.ledger.Holds)
		}
		bytes += int64(sh.keys.count)*heldKeyBytes + int64(len(sh.ended))*endedKeyBytes
		for _, e := range sh.ended {
			records += len(e.records)
		}
		sh.mu.Unlock()
	}
	return holds + records, bytes + int64(holds)*holdBytes + int64(records)*recordBytes
}

// expire ends the holds of k that have expired by t. Their records are removed, so their
// memory is free.
func (s *Store) expire(k *heldKey, a algo.Account, t int64, settings headgate.HoldSettings) {
	ended := k.ledger.Expire(a, t, settings.OnExpiry == headgate.ReleaseExpired)
	if ended == 0 {
		return
	}
	k.ledger.Holds = trimmed(k.ledger.Holds)
	s.logs.bytes.Add(-holdBytes * int64(ended))
}

// reset makes k unused, except for its leases.
func (s *Store) reset(k *heldKey, a algo.Account, t int64) {
	before := len(k.ledger.Holds)
	k.ledger.Reset(a, t)
	s.logs.bytes.Add(-holdBytes * int64(before-len(k.ledger.Holds)))
	k.ledger.Holds = trimmed(k.ledger.Holds)
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
		k.ledger.ExpiredCopy(&a, r.T, b.holds.OnExpiry == headgate.ReleaseExpired)
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
	sh.unwatch(&k.due)
	k.ledger.Clear()
	k.rule, k.log, k.restored = nil, nil, nil
	if cap(k.ledger.Holds) < 16 {
		sh.spare = k
	}
	s.logs.bytes.Add(-heldKeyBytes)
	if len(sh.ended) == 0 {
		return
	}
	if e := sh.ended[k.digest]; e != nil && len(e.records) == 0 {
		s.removeEnded(sh, e)
	}
}

// end ends hold i of k at t, before its deadline, and records that. The key keeps the
// records of at most as many ended holds as it may have open ones. A private hold is not
// repeated, so it needs no record.
func (sh *holdShard) end(s *Store, k *heldKey, a algo.Account, t int64, i int, op *headgate.HoldOp, actual int64, settings headgate.HoldSettings) {
	n := int64(-holdBytes)
	if !op.Private {
		h := &k.ledger.Holds[i]
		n += sh.record(k.digest, algo.EndedHold{ID: h.ID, Deadline: h.Deadline}, t, settings.MaxOpenOrDefault())
	}
	s.logs.bytes.Add(n)
	k.ledger.End(a, t, i, actual, settings.ExcessPolicy == headgate.ClipExcess)
	k.ledger.Holds = trimmed(k.ledger.Holds)
}

// record adds the record of a hold, and returns the change of the memory in use.
func (sh *holdShard) record(d digest, h algo.EndedHold, t int64, maxRecords int) int64 {
	keys := len(sh.ended)
	e := sh.addEnded(d)
	before := len(e.records)
	e.records = trimmed(withRoom(e.records).Add(h, t, maxRecords))
	sh.watch(&e.due, e.records[0].Deadline)
	return int64(len(sh.ended)-keys)*endedKeyBytes + int64(len(e.records)-before)*recordBytes
}
