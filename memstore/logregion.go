package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/algo"
)

const (
	singleBytes   = 64 // memory of a single: its share of the map, 38 to 75 bytes
	logEntryBytes = 16
	logKeyBytes   = 128 // memory of a keyLog without entries, with its share of the map
	firstEntries  = 4   // number of entries that a new keyLog is charged for
	newLogBytes   = logKeyBytes + firstEntries*logEntryBytes
	sweepOnNew    = 2 // number of logs that are checked for expiry when a log is created
	// If the budget is used up, sweepWhenFull logs are checked for expiry in the shard
	// of the key and in up to shardsWhenFull other shards.
	sweepWhenFull  = 16
	shardsWhenFull = 4
)

// logRegion stores the sliding logs, which do not fit in a slot. Its budget is in
// bytes. If there is no room for another entry in a log, new units are added to the
// log's newest entry. If there is no room for the log of a key, the key shares an
// overflow log with other keys.
type logRegion struct {
	shardList[logShard]
	overflow     logShard // overflow logs: at most maxOverflow, not charged to the budget
	maxOverflow  int
	budget       int64
	cursor       atomic.Uint32 // number of calls of sweepNext, which selects the shard to sweep
	bytes        atomic.Int64
	overflowUsed atomic.Bool // true once an overflow log has been used
	// dropHolds drops holds that have expired by an instant, until the budget is not
	// exceeded. The caller holds the mutex of the shard sh.
	dropHolds func(sh *logShard, now int64)
}

// logShard stores a part of the logs. A log that never had two entries is a single, any
// other log is a keyLog. The shard of the overflow logs has no singles.
type logShard struct {
	mu      sync.Mutex
	singles map[digest]single
	keys    map[digest]*keyLog
	empty   algo.Log // used for every key that has no log; stays empty
	working *keyLog  // reused copy of a single for the current call; may be nil
	changes logChanges
}

// single is a sliding log with at most one entry. It needs a third of the memory of a
// keyLog and has no pointer. In a flood of keys that are used once, every log is a
// single. It has no entry, and 0 units, from its creation until units are spent.
//
// packed consists of the units in the upper 30 bits, and of the time from at until the
// log expires in the others, in steps of 2¹⁹ µs (0.5 s), rounded up. This is exact
// enough, because the time only determines when the memory can be used again. The time
// between any two valid instants is less than 2⁵³ µs and fits in 34 bits.
type single struct {
	at     int64
	packed uint64
}

const (
	ttlBits = 34
	ttlStep = 1 << 19
)

func newSingle(at, units, resetAt int64) single {
	ttl := (resetAt - at + ttlStep - 1) / ttlStep
	return single{at, uint64(units)<<ttlBits | uint64(ttl)}
}

func (s single) units() int64   { return int64(s.packed >> ttlBits) }
func (s single) resetAt() int64 { return s.at + int64(s.packed&(1<<ttlBits-1))*ttlStep }

// keyLog is a sliding log in use: an element of logShard.keys, or a copy of a single.
type keyLog struct {
	log      algo.Log
	resetAt  int64
	isSingle bool // whether this is a copy of a single; see logRegion.save
	changed  bool // whether the log is in logShard.changes
}

func (r *logRegion) init(n int, budget int64) {
	r.shardList = newShardList[logShard](n)
	r.maxOverflow = n/overflowFraction + overflowBuckets
	r.budget = budget
}

// logStats are the numbers of stored logs.
type logStats struct {
	singles, keys int
	entries       int // number of entries for which the logs in keys have allocated memory
}

func (n *logStats) add(sh *logShard) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n.singles += len(sh.singles)
	n.keys += len(sh.keys)
	for _, k := range sh.keys {
		n.entries += k.log.Cap()
	}
}

func (n *logStats) bytes() int64 {
	return int64(n.singles)*singleBytes + int64(n.keys)*logKeyBytes + int64(n.entries)*logEntryBytes
}

// stats counts the stored logs. It locks the shards one after another.
func (r *logRegion) stats() (n logStats) {
	for i := range r.shards {
		n.add(&r.shards[i])
	}
	n.add(&r.overflow)
	return n
}

// reserveBytes takes n bytes from the budget and reports whether they were available.
// If the budget is used up, it first drops logs and holds that have expired by the
// instant now.
// The caller holds the mutex of the shard sh.
func (r *logRegion) reserveBytes(sh *logShard, n, now int64) bool {
	if r.bytes.Add(n) <= r.budget {
		return true
	}
	r.sweep(sh, sweepWhenFull, now)
	r.dropHolds(sh, now)
	for range shardsWhenFull {
		if r.bytes.Load() <= r.budget {
			return true
		}
		r.sweepNext(now)
	}
	if r.bytes.Load() <= r.budget {
		return true
	}
	r.bytes.Add(-n)
	return false
}

// reserveFast is like reserveBytes, but drops nothing and needs no mutex.
func (r *logRegion) reserveFast(n int64) bool {
	if r.bytes.Add(n) <= r.budget {
		return true
	}
	r.bytes.Add(-n)
	return false
}

// sweepNext sweeps the next shard unless its mutex is locked. The caller holds the
// mutex of another shard, so sweepNext must not wait.
func (r *logRegion) sweepNext(now int64) {
	if sh := &r.shards[int(r.cursor.Add(1))%len(r.shards)]; sh.mu.TryLock() {
		defer sh.mu.Unlock()
		r.sweep(sh, sweepWhenFull, now)
	}
}

// sweep checks up to limit singles and up to limit other logs of the shard sh, in the
// random order of the maps, and drops the logs that have expired by the instant now.
func (r *logRegion) sweep(sh *logShard, limit int, now int64) {
	n := limit
	for d, one := range sh.singles {
		if n--; n < 0 {
			break
		}
		if one.resetAt() <= now {
			r.dropSingle(sh, d)
		}
	}
	n = limit
	for d, k := range sh.keys {
		if n--; n < 0 {
			break
		}
		if k.resetAt <= now {
			r.drop(sh, d, k)
		}
	}
}

func (r *logRegion) dropSingle(sh *logShard, d digest) {
	delete(sh.singles, d)
	sh.markChanged(d)
	r.bytes.Add(-singleBytes)
}

// drop removes k, the log of the key with digest d.
func (r *logRegion) drop(sh *logShard, d digest, k *keyLog) {
	if k.isSingle {
		r.dropSingle(sh, d)
		return
	}
	delete(sh.keys, d)
	sh.markChanged(d)
	r.bytes.Add(-logKeyBytes - int64(max(firstEntries, k.log.Cap()))*logEntryBytes)
}

// copyForCall returns the keyLog into which find and create copy a single. The next call
// for this shard overwrites it, so the caller must hold sh.mu while it uses the copy.
func (sh *logShard) copyForCall() *keyLog {
	if sh.working == nil {
		sh.working = new(keyLog)
	}
	return sh.working
}

// find returns the log of the key with digest d, or nil if the key has none. If the log
// is stored as a single, find copies it into to and returns to. Call save after a change.
func (sh *logShard) find(d digest, to *keyLog) *keyLog {
	if k := sh.keys[d]; k != nil {
		return k
	}
	one, ok := sh.singles[d]
	if !ok {
		return nil
	}
	to.log.Clear()
	if one.units() > 0 {
		to.log.Append(one.at, one.units())
	}
	to.resetAt, to.isSingle = one.resetAt(), true
	return to
}

// create returns a new log without entries for the key with digest d, or nil if there is
// no room. The log is a single, copied into to. It expires after the instant now, so that
// no sweep at this instant drops it before its first entry.
func (r *logRegion) create(sh *logShard, d digest, now int64, to *keyLog) *keyLog {
	r.sweep(sh, sweepOnNew, now)
	if !r.reserveBytes(sh, singleBytes, now) {
		return nil
	}
	if sh.singles == nil {
		sh.singles = make(map[digest]single)
	}
	sh.singles[d] = newSingle(now, 0, now+1)
	return sh.find(d, to)
}

// keepAfter prevents a sweep at the instant t from dropping k, the log of the key with
// digest d. It never makes the log expire earlier, because under an earlier limit the log
// may matter for longer.
func (sh *logShard) keepAfter(t int64, d digest, k *keyLog) {
	if k.resetAt > t {
		return
	}
	k.resetAt = t + 1
	sh.logChanged(d, k)
	if k.isSingle {
		one := sh.singles[d]
		sh.singles[d] = newSingle(one.at, one.units(), k.resetAt)
	}
}

// save stores k, a changed log of the key with digest d. It returns k, or nil if k was a
// single without units: save has dropped it, and k must not be saved again.
func (r *logRegion) save(sh *logShard, d digest, k *keyLog) *keyLog {
	sh.logChanged(d, k)
	if !k.isSingle {
		return k // sh.keys contains k itself
	}
	for at, units := range k.log.Units {
		sh.singles[d] = newSingle(at, units, k.resetAt)
		return k
	}
	r.dropSingle(sh, d)
	return nil
}

// add adds an empty log for the digest d. The log expires after the instant now, so
// that no sweep at this instant drops it before its first entry.
func (sh *logShard) add(d digest, now int64) *keyLog {
	k := &keyLog{resetAt: now + 1}
	sh.put(d, k)
	return k
}

func (sh *logShard) put(d digest, k *keyLog) {
	if sh.keys == nil {
		sh.keys = make(map[digest]*keyLog)
	}
	sh.keys[d] = k
}

// createOverflow returns the overflow log with digest d. It creates the log if
// necessary, and returns nil if there are too many overflow logs. The caller holds the
// mutex of the overflow shard.
func (r *logRegion) createOverflow(d digest, now int64) *keyLog {
	if k := r.overflow.keys[d]; k != nil {
		k.resetAt = max(k.resetAt, now+1)
		return k
	}
	if len(r.overflow.keys) >= r.maxOverflow {
		for d, k := range r.overflow.keys {
			if k.resetAt <= now {
				delete(r.overflow.keys, d)
				r.overflow.changes.all = true
			}
		}
	}
	if len(r.overflow.keys) >= r.maxOverflow {
		return nil
	}
	return r.overflow.add(d, now)
}

// spend adds n units, which the limit allows, to k, the log of the key with digest d, and
// adjusts the memory in use. The caller holds sh.mu. An overflow log never gets more than
// firstEntries entries.
func (r *logRegion) spend(sh *logShard, d digest, k *keyLog, step algo.LogStepper, t, n int64) {
	r.spendUnits(sh, d, k, step, t, n, false)
}

// spendUnits is spend and, if force is true, also spends units that are not available.
func (r *logRegion) spendUnits(sh *logShard, d digest, k *keyLog, step algo.LogStepper, t, n int64, force bool) {
	if k.isSingle {
		r.spendSingle(sh, d, k, step, t, n, force)
		return
	}
	before := max(firstEntries, k.log.Cap())
	room := !k.log.Full() || k.log.Cap() < firstEntries
	grown := int64(0)
	if !room && sh != &r.overflow {
		grown = int64(before) * logEntryBytes // append at most doubles the capacity of a log
		room = r.reserveBytes(sh, grown, t)
		if !room {
			grown = 0
		}
	}
	addUnits(step, &k.log, t, n, room, force)
	k.resetAt = step.ResetAt(&k.log)
	sh.logChanged(d, k)
	r.bytes.Add(int64(max(firstEntries, k.log.Cap())-before)*logEntryBytes - grown)
}

// spendSingle is like spend, for a single. If the log needs a second entry and there is
// room for it, k becomes an element of sh.keys.
func (r *logRegion) spendSingle(sh *logShard, d digest, k *keyLog, step algo.LogStepper, t, n int64, force bool) {
	second := k.log.Len() > 0 && step.ResetAt(&k.log) > t
	room := !second || r.reserveBytes(sh, newLogBytes-singleBytes, t)
	addUnits(step, &k.log, t, n, room, force)
	k.resetAt = step.ResetAt(&k.log)
	if k.log.Len() > 1 {
		r.promote(sh, d, k)
		return
	}
	if second && room { // the units were added to the entry of the same instant
		r.bytes.Add(singleBytes - newLogBytes)
	}
	r.save(sh, d, k)
}

func addUnits(step algo.LogStepper, log *algo.Log, t, n int64, room, force bool) {
	if force {
		step.Charge(log, t, n, room)
	} else {
		step.Take(log, t, n, room)
	}
}

// promote turns k, a copy of the single with digest d, into an element of sh.keys. The
// memory must have been reserved.
func (r *logRegion) promote(sh *logShard, d digest, k *keyLog) {
	delete(sh.singles, d)
	if k.isSingle = false; k == sh.working {
		sh.working = nil
	}
	sh.put(d, k)
	sh.logChanged(d, k)
}
