package memstore

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

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
	k := sh.find(d, sh.copyForCall())
	if b.store.holds.used.Load() {
		k = b.expireHolds(sh, k, d, t, v)
	}
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
			k = logs.save(sh, d, k)
		}
		if b.store.holds.used.Load() { // a refund does not return units on lease
			k = b.expireHolds(sh, k, d, t, v)
		}
	case headgate.Reset:
		if k != nil {
			logs.drop(sh, d, k)
			k = nil
		}
		if b.store.holds.used.Load() {
			k = b.resetHeld(sh, d, t)
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
		b.store.logs.spend(home, d, k, b.step, t, n)
	}
	return b.step.Answer(&k.log, t, n, fits), nil
}

// writableLog returns the log that a key spends from, created if necessary, and the
// log's shard. A key that may have spent from an overflow log uses that log until all
// of the log's entries have expired. The caller must call release after use.
func (b *logBound) writableLog(sh *logShard, k *keyLog, d digest, t int64) (_ *keyLog, home *logShard, release func(), err error) {
	logs := &b.store.logs
	if k != nil {
		sh.keepAfter(max(t, b.step.ResetAt(&k.log)-1), d, k)
		return k, sh, func() {}, nil
	}
	if k = b.lockActiveOverflow(d, t); k != nil {
		b.store.overflowed.Add(1)
		return k, &logs.overflow, logs.overflow.mu.Unlock, nil
	}
	if k = logs.create(sh, d, t, sh.copyForCall()); k != nil {
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
