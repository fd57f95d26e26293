package memstore

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// finish completes a store after all records were applied: it checks the tables, drops
// what has expired by now, and adds the holds. If the bounds differ from those of the
// store that wrote the records, it returns another store.
func (p *replayer) finish(keys int, logBytes, now int64) (*Store, error) {
	s := p.store
	for _, r := range [...]*region{&s.keys, &s.overflow} {
		for i := range r.shards {
			if err := r.shards[i].checkRestored(); err != nil {
				return nil, err
			}
			if r == &s.overflow && r.shards[i].used > 0 {
				s.overflowed.Store(1)
			}
		}
	}
	for i := range s.logs.shards {
		s.logs.shards[i].dropExpired(now)
	}
	s.logs.overflow.dropExpired(now)
	s.logs.overflowUsed.Store(len(s.logs.overflow.keys) > 0)
	s.logs.budget = logBytes
	for d, h := range p.held {
		s.restoreHolds(d, h, now)
	}
	if keys != p.keys {
		moved := newSized(keys, logBytes, s.secret)
		if err := moved.takeOver(s, now); err != nil {
			return nil, err
		}
		s = moved
	}
	_, holdBytes := s.holds.stats()
	s.logs.bytes.Store(s.logs.countBytes() + holdBytes)
	if s.logs.bytes.Load()-s.holds.bytesOfEndedKeys() > s.logs.budget {
		return nil, fmt.Errorf("%w: its sliding logs and holds take %d bytes and %d fit; raise max_entries or max_bytes",
			headgate.ErrStoreFull, s.logs.bytes.Load(), s.logs.budget)
	}
	return s, nil
}

// bytesOfEndedKeys returns the memory of keys with records, without these. It may exceed
// the budget: for a key whose open holds were restored, it was not reserved.
func (r *holdRegion) bytesOfEndedKeys() (n int64) {
	for i := range r.shards {
		n += int64(len(r.shards[i].ended)) * endedKeyBytes
	}
	return n
}

// checkRestored counts the slots in use, and checks that a search finds every key.
func (sh *shard) checkRestored() error {
	t := sh.table.Load()
	sh.used = 0
	for i := range t.slots {
		d := digest{t.slots[i].hi.Load(), t.slots[i].lo.Load()}
		if d.hi == 0 {
			continue
		}
		if sh.used++; d != freeDigest && t.find(d) != &t.slots[i] {
			return fmt.Errorf("the key in slot %d does not belong there", i)
		}
	}
	return nil
}

// dropExpired removes the logs that have expired by now, and memory that the others do
// not need.
func (sh *logShard) dropExpired(now int64) {
	for d, one := range sh.singles {
		if one.resetAt() <= now {
			delete(sh.singles, d)
		}
	}
	for d, k := range sh.keys {
		if k.resetAt <= now {
			delete(sh.keys, d)
			continue
		}
		k.log.Trim()
		k.log.MarkSaved()
	}
}

func (r *logRegion) countBytes() (n int64) {
	for i := range r.shards {
		sh := &r.shards[i]
		n += int64(len(sh.singles)) * singleBytes
		for _, k := range sh.keys {
			n += logKeyBytes + int64(max(firstEntries, k.log.Cap()))*logEntryBytes
		}
	}
	return n
}

// takeOver moves the state of another store, which has other bounds.
func (s *Store) takeOver(from *Store, now int64) error {
	s.overflowed.Store(from.overflowed.Load())
	for i, r := range [...]*region{&from.keys, &from.overflow} {
		to := [...]*region{&s.keys, &s.overflow}[i]
		for i := range r.shards {
			if err := to.takeOver(&r.shards[i], now); err != nil {
				return err
			}
		}
	}
	for i := range from.logs.shards {
		sh := &from.logs.shards[i]
		for d, one := range sh.singles {
			s.logs.shard(d).putLog(d, sh.find(d, &keyLog{resetAt: one.resetAt()}), false)
		}
		for d, k := range sh.keys {
			s.logs.shard(d).put(d, k)
		}
	}
	s.logs.overflow.keys = from.logs.overflow.keys
	s.logs.overflowUsed.Store(from.logs.overflowUsed.Load())
	s.holds.takeOver(&from.holds)
	s.documents.byName = from.documents.byName
	return nil
}

func (r *holdRegion) takeOver(from *holdRegion) {
	r.used.Store(from.used.Load())
	for i := range from.shards {
		for k := range from.shards[i].keys.all {
			sh := r.shard(k.digest)
			sh.keys.add(k)
			k.place = 0
			sh.watch(&k.due, k.at)
		}
		for d, e := range from.shards[i].ended {
			r.shard(d).putRecords(d, e.records)
		}
	}
}

// putRecords adds the records of a key, which are not empty.
func (sh *holdShard) putRecords(d digest, records algo.Ended) {
	e := sh.addEnded(d)
	e.records = records
	sh.watch(&e.due, records[0].Deadline)
}

func (r *region) takeOver(from *shard, now int64) error {
	slots := from.table.Load().slots
	for i := range slots {
		d, w := slots[i].readAny()
		if d.hi == 0 || w.expiry() <= now {
			continue
		}
		sh := r.shard(d)
		to, seen := sh.allocate(d, now)
		if to == nil {
			return fmt.Errorf("%w: its keys do not fit; raise max_entries or max_bytes", headgate.ErrStoreFull)
		}
		to.assign(d, seen, w.withoutVersion())
	}
	return nil
}

// restoreHolds adds the holds of a key. Holds that have ended are dropped, if the state
// of the key has expired, too: then they have no effect under any rule.
func (s *Store) restoreHolds(d digest, h *restoredHolds, now int64) {
	sh := s.holds.shard(d)
	if h.ended = h.ended.Expire(now); len(h.ended) > 0 {
		sh.putRecords(d, h.ended)
		s.holds.used.Store(true)
	}
	if len(h.ledger.Holds) == 0 {
		return
	}
	k := &heldKey{due: due{digest: d}, ledger: h.ledger, restored: &restoredKey{isLog: h.isLog}}
	expired := k.nextAfter(now) == 0
	if h.isLog {
		one := s.logs.shard(d).find(d, new(keyLog))
		if expired && (one == nil || one.resetAt <= now) {
			return
		}
	} else {
		slot := s.keys.shard(d).table.Load().find(d)
		if slot == nil {
			return // its holds had ended, and its state had expired
		}
		k.restored.words = words{slot.at.Load(), slot.rest.Load()}.withoutVersion()
		if expired && k.restored.expiry() <= now {
			return
		}
		k.account.State = k.restored.state()
		slot.assign(d, words{}, heldWords)
	}
	sh.keys.add(k)
	k.ledger.HasExpired(now) // sets NextDeadline
	sh.watch(&k.due, k.ledger.NextDeadline())
	s.holds.used.Store(true)
}

// track makes the store record changes from now on. No other goroutine
// uses the store yet.
func (s *Store) track() {
	for _, r := range [...]*region{&s.keys, &s.overflow} {
		for i := range r.shards {
			sh := &r.shards[i]
			sh.tracked = true
			sh.table.Load().track()
		}
	}
	for i := range s.logs.shards {
		s.logs.shards[i].changes.tracked = true
	}
	s.logs.overflow.changes.tracked = true
	s.documents.tracked = true
}
