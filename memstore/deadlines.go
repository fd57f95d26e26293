package memstore

import (
	"container/heap"
	"math"

	"github.com/headgate/headgate/algo"
)

// firstRebuild is the minimum number of deadlines at which a shard of holds removes the
// deadlines that no hold has anymore.
const firstRebuild = 64

// deadline is an instant at which a hold or a record of a key expires.
type deadline struct {
	at  int64
	key digest
}

// deadlines is a heap with the deadline of every open hold and of every record of an
// ended hold, the earliest first. It may also have deadlines that no hold has anymore,
// because it ended or was extended.
type deadlines []deadline

func (x *deadlines) Len() int           { return len(*x) }
func (x *deadlines) Less(i, j int) bool { return (*x)[i].at < (*x)[j].at }
func (x *deadlines) Swap(i, j int)      { (*x)[i], (*x)[j] = (*x)[j], (*x)[i] }

// Push does nothing: the caller has appended the last element, so that it is not
// allocated.
func (x *deadlines) Push(any) {}

// Pop does nothing: the caller removes the last element.
func (x *deadlines) Pop() any { return nil }

// watch adds the deadline of a hold that was opened or extended. sh.mu must be locked.
func (sh *holdShard) watch(at int64, d digest) {
	if len(sh.due) >= max(firstRebuild, sh.rebuildAt) {
		sh.rebuild()
	}
	sh.due = append(sh.due, deadline{at, d})
	heap.Push(&sh.due, nil)
	sh.setNext()
}

// rebuild removes the deadlines that no hold has anymore. At least as many calls of watch
// follow until the next rebuild as this one reads keys, holds and records.
func (sh *holdShard) rebuild() {
	sh.due = sh.due[:0]
	for k := range sh.keys.all {
		for i := range k.ledger.Holds {
			sh.due = append(sh.due, deadline{k.ledger.Holds[i].Deadline, k.digest})
		}
	}
	for d, records := range sh.ended {
		for i := range records {
			sh.due = append(sh.due, deadline{records[i].Deadline, d})
		}
	}
	heap.Init(&sh.due)
	sh.rebuildAt = max(2*len(sh.due), len(sh.due)+len(sh.keys.table))
}

// popDue removes and returns the earliest deadline, if that is not after t.
func (sh *holdShard) popDue(t int64) (d deadline, ok bool) {
	if len(sh.due) == 0 || sh.due[0].at > t {
		return d, false
	}
	d = sh.due[0]
	heap.Pop(&sh.due)
	sh.due = sh.due[:len(sh.due)-1]
	sh.setNext()
	return d, true
}

// setNext sets sh.next after a change of the heap.
func (sh *holdShard) setNext() {
	next := int64(math.MaxInt64)
	if len(sh.due) > 0 {
		next = sh.due[0].at
	}
	if sh.next.Load() != next {
		sh.next.Store(next)
	}
}

// dropExpired removes the open holds and the records that have expired by t, for at most
// the given number of deadlines, and until the given number of bytes is free. It leaves
// out the keys that the caller uses. sh.mu must be locked. The mutex of
// the shard locked, which may be nil, is locked as well.
func (s *Store) dropExpired(sh *holdShard, locked *logShard, t int64, used map[digest]bool, most int, free int64) {
	var later []deadline
	for ; most > 0 && s.logs.bytes.Load() > s.logs.budget-free; most-- {
		d, ok := sh.popDue(t)
		if !ok {
			break
		}
		if !s.dropExpiredOf(sh, locked, t, d.key, used[d.key]) {
			later = append(later, d)
		}
	}
	for _, d := range later {
		sh.watch(d.at, d.key)
	}
}

// dropExpiredOf removes the open holds and the records of one key that have expired by t.
// It returns false if it must be called again, because another goroutine or, if used
// is true, the caller uses the key.
func (s *Store) dropExpiredOf(sh *holdShard, locked *logShard, t int64, d digest, used bool) bool {
	if records := sh.ended[d]; len(records) > 0 {
		s.expireRecords(sh, d, records, t)
	}
	k := sh.keys.get(d)
	switch {
	case k == nil || len(k.ledger.Holds) > 0 && !k.ledger.HasExpired(t):
		return true
	case used:
		return false
	case k.rule != nil:
		s.expire(k, &k.account, t, k.rule.holds)
		s.holdsChanged(d)
		s.moveToSlot(sh, d, k)
	case k.log == nil:
		s.dropRestored(sh, k, t)
		return true
	case !k.log.dropHeld(sh, locked, d, k, t):
		return false
	}
	k = sh.keys.get(d)
	return k == nil || len(k.ledger.Holds) > 0
}

// expireRecords removes the records of a key that have expired by t.
func (s *Store) expireRecords(sh *holdShard, d digest, records algo.Ended, t int64) {
	before := len(records)
	if records = records.Expire(t); len(records) == 0 {
		delete(sh.ended, d)
	} else {
		sh.ended[d] = records
	}
	s.logs.bytes.Add(int64(len(records)-before) * holdBytes)
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
	// dropForSlot is the maximum number of deadlines for which an operation with several
	// keys drops holds if it finds no slot for a key.
	dropForSlot = 4096
	// roomPerKey is the number of bytes that an operation with several keys makes
	// available for each of them.
	roomPerKey = 1024
	unlimited  = math.MaxInt64 / 2
)

// dropExpired removes holds of other keys that have expired, in the shards of the
// transaction, which no other function can lock: for at most the given number of
// deadlines, and until the given number of bytes is free.
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
