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
	spareBuckets = 64 // spare buckets of one rule
	spareShare   = 32 // the table of spare buckets is made for this part of the keys
)

// gate is a bound rule whose state fits a slot.
type gate struct {
	ruleState
	step   algo.Stepper
	booker algo.Reserver // nil if the algorithm cannot book ahead
	phased algo.Rephaser // nil if sharing a state needs nothing of the algorithm
	limit  int64
}

// Apply does verb with cost; see [headgate.Bound].
func (g *gate) Apply(_ context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if g.store.closed.Load() {
		return headgate.Decision{}, headgate.ErrClosed
	}
	t, d := g.store.instant(now), g.secret.sum(key)
	if v == headgate.Take {
		if next, ok, done := g.takeKnown(d, t, cost); done {
			return g.answerTake(next, t, cost, ok), nil
		}
	}
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb(v)
	}
	r := algo.Request{Verb: algo.Verb(v), T: t, N: cost}
	out, err := g.run(d, &r)
	if err != nil {
		return headgate.Decision{}, err
	}
	return g.named(algo.AnswerTo(g.step, &r, &out)), nil
}

// takeKnown is the short path: a take from a key that has a slot, which nobody else is changing. Where it is not done, run
// begins anew.
func (g *gate) takeKnown(d digest, t, n int64) (next algo.State, ok, done bool) {
	s := g.store.keys.shard(d).table.Load().find(d)
	if s == nil {
		return next, false, false
	}
	seen, same := s.read(d)
	if !same {
		return next, false, false
	}
	next, ok = g.step.Take(seen.state(), t, n)
	w := g.pack(next)
	return next, ok, seen.holds(w) || s.commit(seen, w)
}

func (g *gate) answerTake(s algo.State, t, n int64, ok bool) headgate.Decision {
	if ok {
		return g.step.Answer(s, t, n, n, true)
	}
	d := g.step.Answer(s, t, n, 0, false)
	d.DeniedBy = g.deniedBy
	return d
}

// run applies a request to the state of a key and keeps what comes out.
func (g *gate) run(d digest, r *algo.Request) (algo.Result, error) {
	sh := g.store.keys.shard(d)
	for {
		s := sh.find(d)
		if s == nil {
			if out, done, err := g.runAbsent(sh, d, r); done {
				return out, err
			}
			continue
		}
		if out, done := g.runSlot(s, d, r, false); done {
			return out, nil
		}
		sh.settle()
	}
}

// runSlot is run for a key that has a slot, or for a spare bucket. It is not done when the slot has become another key's. A
// denial writes nothing, unless the limit was changed: then the state may matter for longer than the slot says.
func (g *gate) runSlot(s *slot, d digest, r *algo.Request, shared bool) (algo.Result, bool) {
	for {
		seen, ok := s.read(d)
		if !ok {
			return algo.Result{}, false
		}
		state := seen.state()
		out := algo.Apply(g.step, state, r)
		if r.Verb == algo.Peek {
			return out, true
		}
		if shared && out.Next != state && (r.Verb == algo.Take || r.Verb == algo.Reserve) {
			out.Next = g.rephase(out.Next, r.T)
		}
		if w := g.pack(out.Next); seen.holds(w) || s.commit(seen, w) {
			return out, true
		}
	}
}

func (g *gate) pack(s algo.State) words { return pack(s, g.step.ResetAt(s)) }

// runAbsent is run for a key without a slot: with its spare bucket's state, if it may have spent there, and a slot of its own
// if there is one. It is not done when somebody else has just given the key a slot.
func (g *gate) runAbsent(sh *shard, d digest, r *algo.Request) (out algo.Result, done bool, err error) {
	if g.store.spilled.Load() == 0 {
		if out = algo.Apply(g.step, algo.State{}, r); out.Next == (algo.State{}) || r.Verb == algo.Peek {
			return out, true, nil
		}
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.table.Load().find(d) != nil {
		return out, false, nil
	}
	spare := g.spareState(d)
	if out = algo.Apply(g.step, spare, r); out.Next == spare || r.Verb == algo.Peek {
		if spare != (algo.State{}) {
			g.store.spilled.Add(1)
		}
		return out, true, nil
	}
	if r.Verb == algo.Refund || r.Verb == algo.Reset {
		out.Next = spare // others share it: what they have spent is not given back
		return out, true, nil
	}
	s, seen := sh.place(d, r.T)
	if s == nil {
		out, err = g.runSpare(d, r)
		return out, true, err
	}
	if spare != (algo.State{}) {
		out.Next = g.rephase(out.Next, r.T)
	}
	s.assign(d, seen, g.pack(out.Next))
	return out, true, nil
}

// rephase makes a state that was shared, and has just been spent from, at least as spent as each of its keys would be alone.
func (g *gate) rephase(s algo.State, t int64) algo.State {
	if g.phased == nil {
		return s
	}
	return g.phased.Rephase(s, t)
}

// spareState is the state of a key's spare bucket.
func (g *gate) spareState(d digest) algo.State {
	if g.store.spilled.Load() == 0 {
		return algo.State{}
	}
	d = g.spareDigest(d)
	for {
		sh := g.store.spare.shard(d)
		s := sh.find(d)
		if s == nil {
			return algo.State{}
		}
		if w, ok := s.read(d); ok {
			return w.state()
		}
		sh.settle()
	}
}

// runSpare is run on the spare bucket of a key that finds no room; the lock of the key's own shard is held.
func (g *gate) runSpare(d digest, r *algo.Request) (algo.Result, error) {
	g.store.spilled.Add(1)
	d = g.spareDigest(d)
	sh := g.store.spare.shard(d)
	for {
		if s := sh.find(d); s != nil {
			if out, done := g.runSlot(s, d, r, true); done {
				return out, nil
			}
			sh.settle()
			continue
		}
		out := algo.Apply(g.step, algo.State{}, r)
		if out.Next == (algo.State{}) {
			return out, nil
		}
		if done, err := g.placeSpare(sh, d, r.T, out.Next); done || err != nil {
			return out, err
		}
	}
}

// placeSpare enters a spare bucket. It is not done when somebody else has just done so.
func (g *gate) placeSpare(sh *shard, d digest, now int64, next algo.State) (bool, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.table.Load().find(d) != nil {
		return false, nil
	}
	s, seen := sh.place(d, now)
	if s == nil {
		return false, errFull()
	}
	s.assign(d, seen, g.pack(next))
	return true, nil
}

func errVerb(v headgate.Verb) error {
	return fmt.Errorf("memstore: apply: %w: verb %d; there are take, peek, refund and reset", headgate.ErrUnsupported, v)
}

func errFull() error {
	return fmt.Errorf("memstore: %w: every place holds a key in debt; give the store more room (max_entries or max_bytes)", headgate.ErrStoreFull)
}

// Reserve takes cost even when it is still to come; see [headgate.Bound].
func (g *gate) Reserve(_ context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	if err := g.booking("reserve"); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	r := algo.Request{Verb: algo.Reserve, T: g.store.instant(now), N: cost, MaxDelay: min(maxDelay, headgate.MaxFillTime).Microseconds()}
	out, err := g.run(g.secret.sum(key), &r)
	if err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	return g.named(algo.AnswerTo(g.step, &r, &out)), headgate.ReservationToken{out.Next.A, out.Next.B, out.Next.C}, nil
}

// Cancel gives back what a Reserve took; see [headgate.Bound].
func (g *gate) Cancel(_ context.Context, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken) (headgate.Decision, error) {
	if err := g.booking("cancel"); err != nil {
		return headgate.Decision{}, err
	}
	r := algo.Request{Verb: algo.Cancel, T: g.store.instant(now), N: cost, Mark: algo.State{A: mark[0], B: mark[1], C: mark[2]}}
	out, err := g.run(g.secret.sum(key), &r)
	if err != nil {
		return headgate.Decision{}, err
	}
	return algo.AnswerTo(g.step, &r, &out), nil
}

func (g *gate) booking(verb string) error {
	if g.store.closed.Load() {
		return headgate.ErrClosed
	}
	if g.booker == nil {
		return errNoBooking(verb)
	}
	return nil
}

func errNoBooking(verb string) error {
	return fmt.Errorf("memstore: %s: %w: reservations require %s", verb, headgate.ErrUnsupported, algo.NamesWhere(headgate.Algorithm.CanReserve))
}

// Spacing is a lower bound of the time that cost more units need.
func (g *gate) Spacing(cost int64) time.Duration { return micros.Duration(g.step.Spacing(cost)) }

// Books reports whether the algorithm can book ahead.
func (g *gate) CanReserve() bool { return g.booker != nil }

// Limit is the most that can be spent at once, in units.
func (g *gate) Limit() int64 { return g.limit }
