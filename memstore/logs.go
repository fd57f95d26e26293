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
	maxLogShards   = 64
	logEntryBytes  = 16
	logKeyBytes    = 128 // a key's part of the map, and its log without entries
	logBudget      = 24  // bytes of sliding logs for each key that the store is made for
	firstEntries   = 4   // entries that a new log is counted with
	newLogBytes    = logKeyBytes + firstEntries*logEntryBytes
	sweepOnNew     = 2  // logs looked at for each new one, to drop those that have aged out
	sweepWhenFull  = 16 // the same, in each of shardsWhenFull shards, when there is no room
	shardsWhenFull = 4
)

// logRegion holds the sliding logs, which do not fit a slot. Its budget is in bytes. A log that finds no room for an entry
// counts new units with its newest entry; a key that finds no room for a log shares a spare one.
type logRegion struct {
	shards []logShard
	spare  logShard // at most spares, beside the budget
	spares int
	budget int64
	cursor atomic.Uint32 // the shard to sweep next
	bytes  atomic.Int64
	shared atomic.Bool // a spare log was used
}

type logShard struct {
	mu    sync.Mutex
	keys  map[digest]*logKey
	empty algo.Log // what a key without a log has
}

type logKey struct {
	log     algo.Log
	resetAt int64
}

func (r *logRegion) init(n int, budget int64) {
	count := 1
	for count < maxLogShards && n/count > 1024 {
		count *= 2
	}
	r.shards = make([]logShard, count)
	r.spares = n/spareShare + spareBuckets
	r.budget = budget
}

func (r *logRegion) index(d digest) int { return int(d.hi % uint64(len(r.shards))) }

func (r *logRegion) shard(d digest) *logShard { return &r.shards[r.index(d)] }

// held counts keys and the entries that memory is held for.
func (r *logRegion) held() (keys, entries int) {
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
	count(&r.spare)
	return keys, entries
}

// reserve takes bytes from the budget, dropping logs of the shard that have aged out if it must. The shard's lock is held.
func (r *logRegion) reserve(sh *logShard, n, now int64) bool {
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

// sweepNext sweeps the next shard, unless somebody holds it: a lock of another shard is held, so it must not wait.
func (r *logRegion) sweepNext(now int64) {
	if sh := &r.shards[int(r.cursor.Add(1))%len(r.shards)]; sh.mu.TryLock() {
		defer sh.mu.Unlock()
		r.sweep(sh, sweepWhenFull, now)
	}
}

// sweep looks at some logs of a shard, in the map's random order, and drops those that are as if never used.
func (r *logRegion) sweep(sh *logShard, most int, now int64) {
	for d, k := range sh.keys {
		if most--; most < 0 {
			return
		}
		if k.resetAt <= now {
			r.drop(sh, d, k)
		}
	}
}

func (r *logRegion) drop(sh *logShard, d digest, k *logKey) {
	delete(sh.keys, d)
	r.bytes.Add(-logKeyBytes - int64(max(firstEntries, k.log.Cap()))*logEntryBytes)
}

// open is a new log for a key, or nil if there is no room.
func (r *logRegion) open(sh *logShard, d digest, now int64) *logKey {
	r.sweep(sh, sweepOnNew, now)
	if !r.reserve(sh, newLogBytes, now) {
		return nil
	}
	return sh.add(d, now)
}

// add enters a log that is kept past now, so that whoever opened it can spend from it before a sweep drops it.
func (sh *logShard) add(d digest, now int64) *logKey {
	if sh.keys == nil {
		sh.keys = make(map[digest]*logKey)
	}
	k := &logKey{resetAt: now + 1}
	sh.keys[d] = k
	return k
}

// openSpare is a spare log, or nil if there are too many. The lock of the spare shard is held.
func (r *logRegion) openSpare(d digest, now int64) *logKey {
	if k := r.spare.keys[d]; k != nil {
		k.resetAt = max(k.resetAt, now+1)
		return k
	}
	if len(r.spare.keys) >= r.spares {
		for d, k := range r.spare.keys {
			if k.resetAt <= now {
				delete(r.spare.keys, d)
			}
		}
	}
	if len(r.spare.keys) >= r.spares {
		return nil
	}
	return r.spare.add(d, now)
}

// spend enters n units that fit, and accounts for the memory that this takes. The lock of the log's shard is held; a spare log
// never grows past its first entries.
func (r *logRegion) spend(sh *logShard, k *logKey, step algo.LogStepper, t, n int64) {
	before := max(firstEntries, k.log.Cap())
	room := !k.log.Full() || k.log.Cap() < firstEntries
	grown := int64(0)
	if !room && sh != &r.spare {
		grown = int64(before) * logEntryBytes // append at most doubles
		room = r.reserve(sh, grown, t)
		if !room {
			grown = 0
		}
	}
	step.Take(&k.log, t, n, room)
	k.resetAt = step.ResetAt(&k.log)
	r.bytes.Add(int64(max(firstEntries, k.log.Cap())-before)*logEntryBytes - grown)
}

// logGate is a bound rule whose state is a log.
type logGate struct {
	ruleState
	step  algo.LogStepper
	limit int64
}

// Apply does verb with cost; see [headgate.Bound].
func (g *logGate) Apply(_ context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if g.store.closed.Load() {
		return headgate.Decision{}, headgate.ErrClosed
	}
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb(v)
	}
	t, d, logs := g.store.instant(now), g.secret.sum(key), &g.store.logs
	sh := logs.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[d]
	switch v {
	case headgate.Take:
		answer, err := g.take(sh, k, d, t, cost)
		return g.named(answer), err
	case headgate.Peek:
		log, release := g.logOf(sh, k, d, t)
		defer release()
		return g.named(g.step.Answer(log, t, cost, g.step.Fits(log, t, cost))), nil
	case headgate.Refund:
		if k != nil {
			g.step.Refund(&k.log, t, cost)
			k.resetAt = g.step.ResetAt(&k.log)
		}
	case headgate.Reset:
		if k != nil {
			logs.drop(sh, d, k)
			k = nil
		}
	}
	log, release := g.logOf(sh, k, d, t)
	defer release()
	return g.step.Answer(log, t, 0, true), nil
}

// logOf is the log that decides for a key: its own, or the spare one that it may have spent from. The shard's lock is held.
func (g *logGate) logOf(sh *logShard, k *logKey, d digest, t int64) (log *algo.Log, release func()) {
	if k != nil {
		return &k.log, func() {}
	}
	if k := g.lockLiveSpare(d, t); k != nil {
		return &k.log, g.store.logs.spare.mu.Unlock
	}
	return &sh.empty, func() {}
}

// lockLiveSpare is the spare log that a key may have spent from, with the lock of the spare logs held; or nil, without it.
func (g *logGate) lockLiveSpare(d digest, t int64) *logKey {
	logs := &g.store.logs
	if !logs.shared.Load() {
		return nil
	}
	logs.spare.mu.Lock()
	if k := logs.spare.live(g.spareDigest(d), t); k != nil {
		return k
	}
	logs.spare.mu.Unlock()
	return nil
}

// live is the log of a digest, if anything in it still counts. The shard's lock is held.
func (sh *logShard) live(d digest, t int64) *logKey {
	if k := sh.keys[d]; k != nil && k.resetAt > t {
		return k
	}
	return nil
}

func (g *logGate) take(sh *logShard, k *logKey, d digest, t, n int64) (headgate.Decision, error) {
	if k == nil && (n == 0 || n > g.limit) {
		log, release := g.logOf(sh, nil, d, t)
		defer release()
		return g.step.Answer(log, t, n, n == 0), nil
	}
	k, home, release, err := g.target(sh, k, d, t)
	if err != nil {
		return headgate.Decision{}, err
	}
	defer release()
	fits := g.step.Fits(&k.log, t, n)
	if fits && n > 0 {
		g.store.logs.spend(home, k, g.step, t, n)
	}
	return g.step.Answer(&k.log, t, n, fits), nil
}

// target is the log that a key spends from, opened if need be, and the shard that it is in. A key that may have spent from a
// spare log stays with it until all that was spent there has aged out.
func (g *logGate) target(sh *logShard, k *logKey, d digest, t int64) (_ *logKey, home *logShard, release func(), err error) {
	logs := &g.store.logs
	if k != nil {
		k.resetAt = max(k.resetAt, t+1) // so that making room for an entry does not sweep it
		return k, sh, func() {}, nil
	}
	if k = g.lockLiveSpare(d, t); k != nil {
		g.store.spilled.Add(1)
		return k, &logs.spare, logs.spare.mu.Unlock, nil
	}
	if k = logs.open(sh, d, t); k != nil {
		return k, sh, func() {}, nil
	}
	logs.shared.Store(true)
	logs.spare.mu.Lock()
	if k = logs.openSpare(g.spareDigest(d), t); k == nil {
		logs.spare.mu.Unlock()
		return nil, nil, nil, errFull()
	}
	g.store.spilled.Add(1)
	return k, &logs.spare, logs.spare.mu.Unlock, nil
}

// Reserve is not supported: what is to come depends on what has yet to age out.
func (g *logGate) Reserve(context.Context, headgate.Instant, string, int64, time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	return headgate.Decision{}, headgate.ReservationToken{}, errNoBooking("reserve")
}

// Cancel is not supported.
func (g *logGate) Cancel(context.Context, headgate.Instant, string, int64, headgate.ReservationToken) (headgate.Decision, error) {
	return headgate.Decision{}, errNoBooking("cancel")
}

// Spacing is a lower bound of the time that cost more units need.
func (g *logGate) Spacing(cost int64) time.Duration { return micros.Duration(g.step.Spacing(cost)) }

// Books reports that a sliding log cannot book ahead.
func (g *logGate) CanReserve() bool { return false }

// Limit is the most that can be spent at once, in units.
func (g *logGate) Limit() int64 { return g.limit }
