package memstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

const (
	maxLogShards  = 64
	logEntryBytes = 16
	logKeyBytes   = 128 // one key's share of the map, and its log without entries
	firstEntries  = 4   // number of entries that a new log is charged for
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
	shards       []logShard
	overflow     logShard // overflow logs: at most maxOverflow, not charged to the budget
	maxOverflow  int
	budget       int64
	cursor       atomic.Uint32 // number of calls of sweepNext, which selects the shard to sweep
	bytes        atomic.Int64
	overflowUsed atomic.Bool // true once an overflow log has been used
}

type logShard struct {
	mu    sync.Mutex
	keys  map[digest]*keyLog
	empty algo.Log // used for every key that has no log; stays empty
}

type keyLog struct {
	log     algo.Log
	resetAt int64
}

func (r *logRegion) init(n int, budget int64) {
	count := 1
	for count < maxLogShards && n/count > 1024 {
		count *= 2
	}
	r.shards = make([]logShard, count)
	r.maxOverflow = n/overflowFraction + overflowBuckets
	r.budget = budget
}

func (r *logRegion) index(d digest) int { return int(d.hi % uint64(len(r.shards))) }

func (r *logRegion) shard(d digest) *logShard { return &r.shards[r.index(d)] }

// count returns the number of keys and the number of entries for which memory is
// allocated.
func (r *logRegion) count() (keys, entries int) {
	count := func(sh *logShard) {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		keys += len(sh.keys)
		for _, k := range sh.keys {
			entries += k.log.Cap()
		}
	}
	for i := range r.shards {
		count(&r.shards[i])
	}
	count(&r.overflow)
	return keys, entries
}

// reserveBytes takes n bytes from the budget and reports whether they were available.
// If the budget is used up, it first drops logs that have expired by the instant now.
// The caller holds the mutex of the shard sh.
func (r *logRegion) reserveBytes(sh *logShard, n, now int64) bool {
	if r.bytes.Add(n) <= r.budget {
		return true
	}
	r.sweep(sh, sweepWhenFull, now)
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

// sweepNext sweeps the next shard unless its mutex is locked. The caller holds the
// mutex of another shard, so sweepNext must not wait.
func (r *logRegion) sweepNext(now int64) {
	if sh := &r.shards[int(r.cursor.Add(1))%len(r.shards)]; sh.mu.TryLock() {
		defer sh.mu.Unlock()
		r.sweep(sh, sweepWhenFull, now)
	}
}

// sweep checks up to limit logs of the shard sh, in the map's random order, and drops
// the logs that have expired by the instant now.
func (r *logRegion) sweep(sh *logShard, limit int, now int64) {
	for d, k := range sh.keys {
		if limit--; limit < 0 {
			return
		}
		if k.resetAt <= now {
			r.drop(sh, d, k)
		}
	}
}

func (r *logRegion) drop(sh *logShard, d digest, k *keyLog) {
	delete(sh.keys, d)
	r.bytes.Add(-logKeyBytes - int64(max(firstEntries, k.log.Cap()))*logEntryBytes)
}

// create returns a new log for the key with digest d, or nil if there is no room.
func (r *logRegion) create(sh *logShard, d digest, now int64) *keyLog {
	r.sweep(sh, sweepOnNew, now)
	if !r.reserveBytes(sh, newLogBytes, now) {
		return nil
	}
	return sh.add(d, now)
}

// add adds an empty log for the digest d. The log expires after the instant now, so
// that no sweep at this instant drops it before its first entry.
func (sh *logShard) add(d digest, now int64) *keyLog {
	if sh.keys == nil {
		sh.keys = make(map[digest]*keyLog)
	}
	k := &keyLog{resetAt: now + 1}
	sh.keys[d] = k
	return k
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
			}
		}
	}
	if len(r.overflow.keys) >= r.maxOverflow {
		return nil
	}
	return r.overflow.add(d, now)
}

// spend adds n units, which the limit allows, to the log of k and adjusts the memory in
// use. The caller holds sh.mu. An overflow log never gets more than firstEntries
// entries.
func (r *logRegion) spend(sh *logShard, k *keyLog, step algo.LogStepper, t, n int64) {
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
	step.Take(&k.log, t, n, room)
	k.resetAt = step.ResetAt(&k.log)
	r.bytes.Add(int64(max(firstEntries, k.log.Cap())-before)*logEntryBytes - grown)
}

// logBound is a bound rule whose state is a sliding log.
type logBound struct {
	ruleState
	step  algo.LogStepper
	limit int64
}

// Apply executes the verb v with cost; see [headgate.Bound].
func (b *logBound) Apply(_ context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if b.store.closed.Load() {
		return headgate.Decision{}, headgate.ErrClosed
	}
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb(v)
	}
	t, d, logs := b.store.instant(now), b.secret.sum(key), &b.store.logs
	sh := logs.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[d]
	switch v {
	case headgate.Take:
		answer, err := b.take(sh, k, d, t, cost)
		return b.withDeniedBy(answer), err
	case headgate.Peek:
		log, release := b.lookup(sh, k, d, t)
		defer release()
		return b.withDeniedBy(b.step.Answer(log, t, cost, b.step.Fits(log, t, cost))), nil
	case headgate.Refund:
		if k != nil {
			b.step.Refund(&k.log, t, cost)
			k.resetAt = b.step.ResetAt(&k.log)
		}
	case headgate.Reset:
		if k != nil {
			logs.drop(sh, d, k)
			k = nil
		}
	}
	log, release := b.lookup(sh, k, d, t)
	defer release()
	return b.step.Answer(log, t, 0, true), nil
}

// lookup returns the log that determines the decisions for a key: k.log if k is not
// nil; otherwise the overflow log that the key may have spent from, or an empty log.
// The caller holds sh.mu and must call release after use.
func (b *logBound) lookup(sh *logShard, k *keyLog, d digest, t int64) (log *algo.Log, release func()) {
	if k != nil {
		return &k.log, func() {}
	}
	if k := b.lockActiveOverflow(d, t); k != nil {
		return &k.log, b.store.logs.overflow.mu.Unlock
	}
	return &sh.empty, func() {}
}

// lockActiveOverflow returns the overflow log that the key with digest d may have spent
// from, and keeps the mutex of the overflow logs locked. If the key has not used such
// a log, it returns nil and locks nothing.
func (b *logBound) lockActiveOverflow(d digest, t int64) *keyLog {
	logs := &b.store.logs
	if !logs.overflowUsed.Load() {
		return nil
	}
	logs.overflow.mu.Lock()
	if k := logs.overflow.active(b.overflowDigest(d), t); k != nil {
		return k
	}
	logs.overflow.mu.Unlock()
	return nil
}

// active returns the log with digest d if any of its entries still counts at t, or nil.
// The caller holds sh.mu.
func (sh *logShard) active(d digest, t int64) *keyLog {
	if k := sh.keys[d]; k != nil && k.resetAt > t {
		return k
	}
	return nil
}

func (b *logBound) take(sh *logShard, k *keyLog, d digest, t, n int64) (headgate.Decision, error) {
	if k == nil && (n == 0 || n > b.limit) {
		log, release := b.lookup(sh, nil, d, t)
		defer release()
		return b.step.Answer(log, t, n, n == 0), nil
	}
	k, home, release, err := b.writableLog(sh, k, d, t)
	if err != nil {
		return headgate.Decision{}, err
	}
	defer release()
	fits := b.step.Fits(&k.log, t, n)
	if fits && n > 0 {
		b.store.logs.spend(home, k, b.step, t, n)
	}
	return b.step.Answer(&k.log, t, n, fits), nil
}

// writableLog returns the log that a key spends from, created if necessary, and the
// log's shard. A key that may have spent from an overflow log uses that log until all
// of the log's entries have expired. The caller must call release after use.
func (b *logBound) writableLog(sh *logShard, k *keyLog, d digest, t int64) (_ *keyLog, home *logShard, release func(), err error) {
	logs := &b.store.logs
	if k != nil {
		k.resetAt = max(k.resetAt, t+1) // a sweep that makes room for an entry must not drop k
		return k, sh, func() {}, nil
	}
	if k = b.lockActiveOverflow(d, t); k != nil {
		b.store.overflowed.Add(1)
		return k, &logs.overflow, logs.overflow.mu.Unlock, nil
	}
	if k = logs.create(sh, d, t); k != nil {
		return k, sh, func() {}, nil
	}
	logs.overflowUsed.Store(true)
	logs.overflow.mu.Lock()
	if k = logs.createOverflow(b.overflowDigest(d), t); k == nil {
		logs.overflow.mu.Unlock()
		return nil, nil, nil, errFull()
	}
	b.store.overflowed.Add(1)
	return k, &logs.overflow, logs.overflow.mu.Unlock, nil
}

// Reserve is not supported: when units become available depends on the entries
// that have not yet expired.
func (b *logBound) Reserve(context.Context, headgate.Instant, string, int64, time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	return headgate.Decision{}, headgate.ReservationToken{}, errNoReserve("reserve")
}

// Cancel is not supported.
func (b *logBound) Cancel(context.Context, headgate.Instant, string, int64, headgate.ReservationToken) (headgate.Decision, error) {
	return headgate.Decision{}, errNoReserve("cancel")
}

// Spacing returns a lower bound on the time until cost further units become available.
func (b *logBound) Spacing(cost int64) time.Duration { return micros.Duration(b.step.Spacing(cost)) }

// CanReserve returns false, because a sliding log cannot reserve units in advance.
func (b *logBound) CanReserve() bool { return false }

// Limit returns the maximum number of units that one request can spend.
func (b *logBound) Limit() int64 { return b.limit }
