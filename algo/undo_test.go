package algo_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// taken is a take that may yet be undone.
type taken struct {
	was, after algo.State
	at, n      int64
	entered    int64 // the instant under which a log has it
}

// spend takes n units, and says what it takes to undo that; ok is false if they were denied.
func (k *key) spend(t, n int64) (u taken, ok bool) {
	u = taken{was: k.state, at: t, n: n}
	ok = k.take(t, n).Allowed
	u.after = k.state
	for at := range k.list.Units {
		u.entered = at
	}
	return u, ok
}

func (k *key) undo(t int64, u taken) {
	s := step{verb: undo, t: t, n: u.n, t0: u.at, was: u.was, mark: u.after}
	if k.log != nil {
		s.t0 = u.entered
	}
	k.run(s)
}

// worlds are a key with a take that is undone, and the same key without that take.
type worlds struct {
	with, without *key
	undone        taken
	others        int // takes by others in between
	now           int64
}

// eachWorlds lives through random lives of keys in which n units are taken and, after others have spent or tried to, given back.
// In the world without, the others spend what they spent. The clock does not go back, nor does anybody else give back.
func eachWorlds(t *testing.T, check func(t *testing.T, d dice, w *worlds)) {
	t.Helper()
	eachMoment(t, moments/2, func(t *testing.T, d dice, k *key, now, cost int64) {
		w := &worlds{with: k, without: k.clone(), now: now}
		if d.oneIn(2) {
			cost = 1 + d.upTo(cost)
		}
		var ok bool
		if w.undone, ok = k.spend(now, cost); !ok || cost == 0 {
			return
		}
		for range d.IntN(6) {
			if !w.other(d) {
				return
			}
		}
		if d.oneIn(2) {
			w.pass(d)
		}
		check(t, d, w)
	})
}

// other is a request of somebody else. It is false if only the world with the take admits it: an interval bucket that was full
// begins its intervals anew, so that one from which more was taken can be full sooner.
func (w *worlds) other(d dice) bool {
	w.pass(d)
	asked := w.with.peek(w.now, 0)
	n := d.cost(asked.Limit, asked.Remaining)
	if n == 0 || !w.with.take(w.now, n).Allowed {
		return true
	}
	w.others++
	return w.without.take(w.now, n).Allowed
}

// pass lets some time go by, often until something changes.
func (w *worlds) pass(d dice) {
	period := w.with.limit.Period.Microseconds()
	switch d.IntN(6) {
	case 0, 1:
	case 2:
		w.now += d.scaled(1, 3*period)
	case 3:
		w.now += w.without.peek(w.now, 0).ResetAfter.Microseconds() - d.upTo(1)
	case 4:
		w.now += d.scaled(1, max(1, period/max(1, w.with.limit.Rate)))
	default:
		w.now += period - w.now%period - d.upTo(1)
	}
	w.now = min(maxInstant, max(w.now, 0, w.undone.at))
}

// later are instants from now on at which the worlds might differ.
func (w *worlds) later(d dice) []int64 {
	instants := []int64{w.now, w.now + 1, w.now + d.scaled(1, 3*w.with.limit.Period.Microseconds())}
	for _, k := range []*key{w.with, w.without} {
		seen := k.peek(w.now, 0)
		for _, wait := range []int64{seen.ResetAfter.Microseconds(), k.peek(w.now, 1+seen.Remaining).RetryAfter.Microseconds()} {
			instants = append(instants, w.now+wait, w.now+max(0, wait-1), w.now+d.upTo(wait))
		}
	}
	for i := range instants {
		instants[i] = min(maxInstant, instants[i])
	}
	return instants
}

// TestUndoLeavesNoMoreThanWithoutTheTake: whatever others spent in between, from then on nothing is admitted that would not be if
// the units had never been taken. (That remaining is what is admitted, TestPeekAndTakeAgree shows.)
func TestUndoLeavesNoMoreThanWithoutTheTake(t *testing.T) {
	eachWorlds(t, func(t *testing.T, d dice, w *worlds) {
		before, kept := w.with.String(), w.with.kept()
		w.with.undo(w.now, w.undone)
		if w.with.algorithm.Name == headgate.TokenBucketInterval && w.with.kept() == kept {
			return // its intervals may lie better than without the take, undone or not: see other
		}
		for _, at := range w.later(d) {
			if got, most := w.with.remaining(at), w.without.remaining(at); got > most {
				t.Fatalf("%s: %+v undone at %d leaves %s:\nat %d got %d remaining, %d if it had not been taken: %v",
					before, w.undone, w.now, w.with.kept(), at, got, most, w.without)
			}
		}
	})
}

// TestUndoAloneLeavesNoTrace: if nobody else did anything, the key is as if the units had never been taken. That holds also when
// the clock went back, but for a log, from which the take has dropped what had aged out.
func TestUndoAloneLeavesNoTrace(t *testing.T) {
	eachWorlds(t, func(t *testing.T, d dice, w *worlds) {
		if w.others > 0 {
			return
		}
		if w.with.log == nil && d.oneIn(4) {
			w.now = max(0, w.undone.at-d.scaled(1, maxInstant))
		}
		before := w.with.String()
		w.with.undo(w.now, w.undone)
		for _, at := range w.later(d) {
			if got, want := w.with.observed(at), w.without.observed(at); got != want {
				t.Fatalf("%s: %+v undone at %d leaves %s, at %d\ngot  %swant %s", before, w.undone, w.now, w.with.kept(), at, got, want)
			}
		}
	})
}

// TestUndoneTakesKeepTheGuarantee has several takes under way at any time, of which many are undone, in any order: what was
// admitted for good keeps the guarantee.
func TestUndoneTakesKeepTheGuarantee(t *testing.T) { // T3, T28
	eachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		d := newDice(*seedFlag, 503)
		for range 1500 {
			l := d.busy(a)
			log := undoneTrace(d, newKey(a, l))
			if span, units, broken := worst(log, guarantee(a.Name, l)); broken {
				t.Fatalf("%s %v: %d units went ahead within %d µs", a.Name, l, units, span)
			}
		}
	})
}

func undoneTrace(d dice, k *key) (log []admission) {
	var under []taken
	now, last := year2026+d.upTo(1e9), headgate.Decision{}
	for range 150 {
		now = d.soon(now, k.limit, last)
		if len(under) > 0 && d.oneIn(2) {
			i := d.IntN(len(under))
			k.undo(now, under[i])
			under = slices.Delete(under, i, i+1)
			continue
		}
		n := 1 + d.upTo(k.limit.Capacity()-1)
		u, ok := k.spend(now, n)
		last = k.peek(now, n)
		switch {
		case !ok:
		case d.oneIn(2):
			under = append(under, u)
		default:
			log = append(log, admission{now, n})
		}
	}
	for _, u := range under {
		log = append(log, admission{u.at, u.n})
	}
	return log
}
