package memstore

import (
	"container/heap"
	"math"
)

// due is the place of a key in the heap of its shard. A key has one for its open holds,
// and one for its records of ended holds.
type due struct {
	digest digest
	at     int64 // the earliest deadline, or an instant before it
	place  int   // index in the heap plus 1, or 0 for a key that is not there
}

// dueHeap is a heap of keys, the one with the earliest deadline first.
type dueHeap []*due

func (x dueHeap) Len() int           { return len(x) }
func (x dueHeap) Less(i, j int) bool { return x[i].at < x[j].at }

// Swap implements [heap.Interface].
func (x dueHeap) Swap(i, j int) {
	x[i], x[j] = x[j], x[i]
	x[i].place, x[j].place = i+1, j+1
}

// Push does nothing: watch appends to the heap.
func (x dueHeap) Push(any) {}

// Pop does nothing: unwatch removes the last element.
func (x dueHeap) Pop() any { return nil }

// watch makes the key of e expire at the instant at, or earlier if it has an earlier
// deadline. sh.mu must be locked.
func (sh *holdShard) watch(e *due, at int64) {
	if e.place == 0 {
		sh.due = append(sh.due, e)
		e.place = len(sh.due)
	} else if at >= e.at {
		return
	}
	if e.at = at; e.place > 1 {
		heap.Fix(&sh.due, e.place-1)
	}
	if at < sh.next.Load() {
		sh.next.Store(at)
	}
}

// unwatch removes e from the heap. sh.next stays: it may be before the earliest deadline.
func (sh *holdShard) unwatch(e *due) {
	if e.place == 0 {
		return
	}
	i, last := e.place-1, len(sh.due)-1
	sh.due.Swap(i, last)
	sh.due[last], e.place = nil, 0
	if sh.due = sh.due[:last]; i < last {
		heap.Fix(&sh.due, i)
	}
}

// popDue removes and returns the key with the earliest deadline, if that is not after t.
func (sh *holdShard) popDue(t int64) *due {
	if len(sh.due) == 0 || sh.due[0].at > t {
		return nil
	}
	e := sh.due[0]
	sh.unwatch(e)
	return e
}

// setNext sets sh.next to the earliest deadline.
func (sh *holdShard) setNext() {
	next := int64(math.MaxInt64)
	if len(sh.due) > 0 {
		next = sh.due[0].at
	}
	sh.next.Store(next)
}

// dropExpired removes the open holds and the records that have expired by t, of at most
// the given number of keys, and until the given number of bytes is free. It leaves out
// the keys that the caller uses. sh.mu must be locked. The mutex of the shard locked,
// which may be nil, is locked as well.
func (s *Store) dropExpired(sh *holdShard, locked *logShard, t int64, used map[digest]bool, most int, free int64) {
	var later []*due
	for ; most > 0 && s.logs.bytes.Load() > s.logs.budget-free; most-- {
		e := sh.popDue(t)
		if e == nil {
			break
		}
		if !s.dropExpiredOf(sh, locked, t, e, used[e.digest]) {
			later = append(later, e)
		}
	}
	for _, e := range later {
		sh.watch(e, e.at)
	}
	sh.setNext()
}

// dropExpiredOf removes the open holds of a key, or its records, that have expired by t.
// If others are left, the key is in the heap again, with a deadline after t: e.at may
// have been the deadline of a hold that has ended or was extended. dropExpiredOf returns
// false if it must be called again, because another goroutine or, if used is true, the
// caller uses the key.
func (s *Store) dropExpiredOf(sh *holdShard, locked *logShard, t int64, e *due, used bool) bool {
	k := sh.keys.get(e.digest)
	if k == nil || &k.due != e {
		s.expireRecords(sh, sh.ended[e.digest], t)
		return true
	}
	switch {
	case len(k.ledger.Holds) > 0 && !k.ledger.HasExpired(t):
		sh.watch(e, k.ledger.NextDeadline())
		return true
	case used:
		return false
	case k.rule != nil:
		s.expire(k, &k.account, t, k.rule.holds)
		s.holdsChanged(e.digest)
		s.moveToSlot(sh, e.digest, k)
	case k.log == nil:
		return s.dropRestored(sh, k, t)
	case !k.log.dropHeld(sh, locked, e.digest, k, t):
		return false
	}
	switch {
	case sh.keys.get(e.digest) == nil:
		return true
	case len(k.ledger.Holds) == 0:
		return false
	}
	sh.watch(e, k.ledger.NextDeadline())
	return true
}

// expireRecords removes the records of a key that have expired by t.
func (s *Store) expireRecords(sh *holdShard, e *endedKey, t int64) {
	before := len(e.records)
	e.records = trimmed(e.records.Expire(t))
	s.logs.bytes.Add(int64(len(e.records)-before) * recordBytes)
	if len(e.records) > 0 {
		sh.watch(&e.due, e.records[0].Deadline)
	} else if sh.keys.get(e.digest) == nil {
		s.removeEnded(sh, e)
	}
}

// dropExpiredHolds removes holds that have expired by t, until the budget of the logs is
// not exceeded. The caller holds the mutex of the shard locked, and may hold those of
// other shards, so it waits for none.
func (s *Store) dropExpiredHolds(locked *logShard, t int64) {
	if !s.holds.used.Load() {
		return
	}
	n, first := len(s.holds.shards), int(s.logs.cursor.Add(1))
	for i := range n {
		sh := &s.holds.shards[(first+i)%n]
		if s.logs.bytes.Load() <= s.logs.budget {
			return
		}
		if sh.next.Load() <= t && sh.mu.TryLock() {
			s.dropExpired(sh, locked, t, nil, math.MaxInt, 0)
			sh.mu.Unlock()
		}
	}
}

// freeHeldSlot moves the state of a key back to its slot if its holds have expired by t.
// The caller holds the mutex of the shard of the slot.
func (s *Store) freeHeldSlot(d digest, t int64) {
	sh := s.holds.shard(d)
	if sh.next.Load() > t || !sh.mu.TryLock() {
		return
	}
	defer sh.mu.Unlock()
	if k := sh.keys.get(d); k != nil && k.rule != nil && k.ledger.HasExpired(t) {
		s.expire(k, &k.account, t, k.rule.holds)
		s.holdsChanged(d)
		s.moveToSlot(sh, d, k)
	}
}

const (
	// dropForSlot is the maximum number of keys whose holds an operation with several
	// keys drops if it finds no slot for a key.
	dropForSlot = 4096
	// roomPerKey is the number of bytes that an operation with several keys makes
	// available for each of them.
	roomPerKey = 1024
	unlimited  = math.MaxInt64 / 2
)

// dropExpired removes holds of other keys that have expired, in the shards of the
// transaction, which no other function can lock: of at most the given number of keys, and
// until the given number of bytes is free.
func (x *transaction) dropExpired(most int, free int64) {
	logs := &x.store.logs
	if x.peek || logs.bytes.Load() <= logs.budget-free {
		return
	}
	used := make(map[digest]bool, len(x.targets))
	for _, t := range x.targets {
		used[t.d] = true
	}
	for _, t := range x.targets {
		var locked *logShard
		if t.rule == nil || x.holdCall {
			locked = logs.shard(t.d)
		}
		x.store.dropExpired(t.holds, locked, x.t, used, most, free)
	}
}
