package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

const (
	overflowBuckets  = 64 // overflow buckets of one rule
	overflowFraction = 32 // the overflow table is sized for this fraction of the keys: 1/32
)

// slotBound is a bound rule whose state fits in a slot.
type slotBound struct {
	ruleState
	step      algo.Stepper
	reserver  algo.Reserver  // nil if the algorithm cannot reserve units in advance
	rephaser  algo.Rephaser  // nil if keys can share a state of this algorithm without adjustments
	corrector algo.Corrector // nil if charges of the algorithm cannot be corrected
	canHold   bool           // whether the algorithm supports holds
	canLease  bool           // whether the algorithm supports leases
	onlyHolds bool           // whether only holds take units; see onlyholds.go
	limit     int64
}

// Apply executes the verb v with cost; see [headgate.Bound].
func (b *slotBound) Apply(_ context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if b.store.closed.Load() {
		return headgate.Decision{}, headgate.ErrClosed
	}
	t, d := b.store.instant(now), b.secret.sum(key)
	if b.onlyHolds {
		return b.applyOnlyHolds(d, t, v, cost)
	}
	if v == headgate.Take {
		if next, ok, done := b.takeFast(d, t, cost); done {
			return b.answerTake(next, t, cost, ok), nil
		}
	}
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb(v)
	}
	r := algo.Request{Verb: algo.Verb(v), T: t, N: cost}
	out, err := b.apply(d, &r)
	if err != nil {
		return headgate.Decision{}, err
	}
	return b.withDeniedBy(algo.AnswerTo(b.step, &r, &out)), nil
}

// takeFast is the fast path of a take. It works if the key with digest d has a slot
// that no other goroutine is writing. If done is false, nothing has changed and the
// caller must use apply.
func (b *slotBound) takeFast(d digest, t, n int64) (next algo.State, ok, done bool) {
	table := b.store.keys.shard(d).table.Load()
	s := table.find(d)
	if s == nil {
		return next, false, false
	}
	seen, same := s.read(d)
	if !same || seen.held() {
		return next, false, false
	}
	next, ok = b.step.Take(seen.state(), t, n)
	w := b.repack(seen, next)
	if seen.equals(w) {
		return next, ok, true
	}
	if !s.commit(seen, w) {
		return next, ok, false
	}
	table.markChanged(s)
	return next, ok, true
}

func (b *slotBound) answerTake(s algo.State, t, n int64, ok bool) headgate.Decision {
	if ok {
		return b.step.Answer(s, t, n, n, true)
	}
	d := b.step.Answer(s, t, n, 0, false)
	d.DeniedBy = b.deniedBy
	return d
}

// apply executes a request on the state of the key with digest d and stores the
// resulting state.
func (b *slotBound) apply(d digest, r *algo.Request) (algo.Result, error) {
	sh := b.store.keys.shard(d)
	for {
		s := sh.find(d)
		if s == nil {
			if out, done, err := b.applyToNewKey(sh, d, r); done {
				return out, err
			}
			continue
		}
		if out, done := b.applyToSlot(sh, s, d, r); done {
			return out, nil
		}
		sh.awaitUnlock()
	}
}

// applyToSlot executes a request on the slot s of the shard sh with the digest d. s is
// the slot of a key or of an overflow bucket. applyToSlot returns false if s no longer
// has this digest. A denial leaves the state unchanged, but may extend its TTL: see
// repack.
func (b *slotBound) applyToSlot(sh *shard, s *slot, d digest, r *algo.Request) (algo.Result, bool) {
	for {
		seen, ok := s.read(d)
		if !ok {
			return algo.Result{}, false
		}
		if seen.held() {
			return b.applyHeld(d, r)
		}
		state := seen.state()
		out := algo.Apply(b.step, state, r)
		if r.Verb == algo.Peek {
			return out, true
		}
		if sh.isOverflow && out.Next != state && (r.Verb == algo.Take || r.Verb == algo.Reserve) {
			out.Next = b.rephase(out.Next, r.T)
		}
		w := b.repack(seen, out.Next)
		if seen.equals(w) {
			return out, true
		}
		if s.commit(seen, w) {
			sh.changed(s)
			return out, true
		}
	}
}

func (b *slotBound) pack(s algo.State) words { return pack(s, b.step.ResetAt(s)) }

// repack returns the words for the state next of the key whose slot contains seen. A
// state that does not change keeps its TTL, or gets a longer one: it may have been
// written under another limit, by which it matters for a different time.
func (b *slotBound) repack(seen words, next algo.State) words {
	w := b.pack(next)
	if next == seen.state() && w.expiry() < seen.expiry() {
		return seen.withoutVersion()
	}
	return w
}

// applyToNewKey executes a request for a key that has no slot. If the key may have
// spent units from its overflow bucket, its state starts as that bucket's state. If the
// request changes the state, applyToNewKey stores it in a free slot or, if there is
// none, in the overflow bucket. done is false if another goroutine has just given the
// key a slot.
func (b *slotBound) applyToNewKey(sh *shard, d digest, r *algo.Request) (out algo.Result, done bool, err error) {
	if b.store.overflowed.Load() == 0 {
		if out = algo.Apply(b.step, algo.State{}, r); out.Next == (algo.State{}) || r.Verb == algo.Peek {
			return out, true, nil
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.table.Load().find(d) != nil {
		return out, false, nil
	}
	shared := b.overflowState(d)
	if out = algo.Apply(b.step, shared, r); out.Next == shared || r.Verb == algo.Peek {
		if shared != (algo.State{}) {
			b.store.overflowed.Add(1)
		}
		return out, true, nil
	}
	if r.Verb == algo.Refund || r.Verb == algo.Reset {
		out.Next = shared // other keys may have spent these units, so they are not refunded
		return out, true, nil
	}
	s, seen := sh.allocate(d, r.T)
	if s == nil {
		out, err = b.applyToOverflow(d, r)
		return out, true, err
	}
	if shared != (algo.State{}) {
		out.Next = b.rephase(out.Next, r.T)
	}
	s.assign(d, seen, b.pack(out.Next))
	sh.changed(s)
	return out, true, nil
}

// rephase adjusts s, the state of an overflow bucket from which units were just spent
// at t. In the adjusted state, at least as much is spent as in the state that each of
// the bucket's keys would have alone.
func (b *slotBound) rephase(s algo.State, t int64) algo.State {
	if b.rephaser == nil {
		return s
	}
	return b.rephaser.Rephase(s, t)
}

// overflowState returns the state of the overflow bucket that belongs to the key with
// digest d.
func (b *slotBound) overflowState(d digest) algo.State {
	if b.store.overflowed.Load() == 0 {
		return algo.State{}
	}
	d = b.overflowDigest(d)
	for {
		sh := b.store.overflow.shard(d)
		s := sh.find(d)
		if s == nil {
			return algo.State{}
		}
		if w, ok := s.read(d); ok {
			return w.state()
		}
		sh.awaitUnlock()
	}
}

// applyToOverflow executes a request on the overflow bucket of a key for which there is
// no slot. The caller holds the mutex of the key's own shard.
func (b *slotBound) applyToOverflow(d digest, r *algo.Request) (algo.Result, error) {
	b.store.overflowed.Add(1)
	d = b.overflowDigest(d)
	sh := b.store.overflow.shard(d)
	for {
		if s := sh.find(d); s != nil {
			if out, done := b.applyToSlot(sh, s, d, r); done {
				return out, nil
			}
			sh.awaitUnlock()
			continue
		}
		out := algo.Apply(b.step, algo.State{}, r)
		if out.Next == (algo.State{}) {
			return out, nil
		}
		if done, err := b.insertOverflow(sh, d, r.T, out.Next); done || err != nil {
			return out, err
		}
	}
}

// insertOverflow stores next as the state of a new overflow bucket with digest d. It
// returns false if another goroutine has just stored that bucket.
func (b *slotBound) insertOverflow(sh *shard, d digest, now int64, next algo.State) (bool, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.table.Load().find(d) != nil {
		return false, nil
	}
	s, seen := sh.allocate(d, now)
	if s == nil {
		return false, errFull()
	}
	s.assign(d, seen, b.pack(next))
	sh.changed(s)
	return true, nil
}

func errVerb(v headgate.Verb) error {
	return fmt.Errorf("memstore: apply: %w: verb is %d; must be take, peek, refund or reset", headgate.ErrUnsupported, v)
}

func errFull() error {
	return fmt.Errorf("memstore: %w: no slot can be evicted because all keys are partly spent; raise max_entries or max_bytes", headgate.ErrStoreFull)
}

// Reserve takes cost units in advance if they become available within maxDelay; see
// [headgate.Bound].
func (b *slotBound) Reserve(_ context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	if err := b.checkReserve("reserve"); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	r := algo.Request{Verb: algo.Reserve, T: b.store.instant(now), N: cost, MaxDelay: min(maxDelay, headgate.MaxFillTime).Microseconds()}
	out, err := b.apply(b.secret.sum(key), &r)
	if err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	return b.withDeniedBy(algo.AnswerTo(b.step, &r, &out)), headgate.ReservationToken{out.Next.A, out.Next.B, out.Next.C}, nil
}

// Cancel refunds a reservation; see [headgate.Bound].
func (b *slotBound) Cancel(_ context.Context, now headgate.Instant, key string, cost int64, token headgate.ReservationToken) (headgate.Decision, error) {
	if err := b.checkReserve("cancel"); err != nil {
		return headgate.Decision{}, err
	}
	r := algo.Request{Verb: algo.Cancel, T: b.store.instant(now), N: cost, Token: algo.State{A: token[0], B: token[1], C: token[2]}}
	out, err := b.apply(b.secret.sum(key), &r)
	if err != nil {
		return headgate.Decision{}, err
	}
	return algo.AnswerTo(b.step, &r, &out), nil
}

func (b *slotBound) checkReserve(verb string) error {
	if b.store.closed.Load() {
		return headgate.ErrClosed
	}
	if b.reserver == nil {
		return errNoReserve(verb)
	}
	return nil
}

func errNoReserve(verb string) error {
	return fmt.Errorf("memstore: %s: %w: reservations require %s", verb, headgate.ErrUnsupported, algo.NamesWhere(headgate.Algorithm.CanReserve))
}

// Spacing returns a lower bound on the time until cost further units become available.
func (b *slotBound) Spacing(cost int64) time.Duration { return micros.Duration(b.step.Spacing(cost)) }

// CanReserve reports whether the algorithm supports reservations.
func (b *slotBound) CanReserve() bool { return b.reserver != nil }

// Limit returns the maximum number of units that one request can spend.
func (b *slotBound) Limit() int64 { return b.limit }
