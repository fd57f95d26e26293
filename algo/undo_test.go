package algo_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// taken is a take that can still be undone.
type taken struct {
	was, after algo.State
	at, n      int64
	entered    int64 // the time of its log entry
}

// spend takes n units and returns the arguments of undo. ok is false if they were denied.
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

// undoComparison contains a key with a take that is undone, and the same key without that
// take.
type undoComparison struct {
	with, without *key
	undone        taken
	others        int // takes of other clients in between
	now           int64
}

// forEachUndo runs random sequences on keys in which n units are taken and are to be
// undone after requests of other clients. In the world without the take, the other
// clients spend the same units. The clock does not go back, and other clients request no
// refunds.
func forEachUndo(t *testing.T, check func(t *testing.T, d generator, w *undoComparison)) {
	t.Helper()
	forEachStep(t, stepsPerTest/2, func(t *testing.T, d generator, k *key, now, cost int64) {
		w := &undoComparison{with: k, without: k.clone(), now: now}
		if d.oneIn(2) {
			cost = 1 + d.upTo(cost)
		}
		var ok bool
		if w.undone, ok = k.spend(now, cost); !ok || cost == 0 {
			return
		}
		for range d.IntN(6) {
			if !w.sendOtherRequest(d) {
				return
			}
		}
		if d.oneIn(2) {
			w.advance(d)
		}
		check(t, d, w)
	})
}

// other sends a request of another client. It returns false if only the world with the
// take allows it: an interval bucket that was full restarts its intervals, so a bucket
// from which more was taken can be full sooner.
func (w *undoComparison) sendOtherRequest(d generator) bool {
	w.advance(d)
	asked := w.with.peek(w.now, 0)
	n := d.cost(asked.Limit, asked.Remaining)
	if n == 0 || !w.with.take(w.now, n).Allowed {
		return true
	}
	w.others++
	return w.without.take(w.now, n).Allowed
}

// advance moves the time forward, often to a time at which the state changes.
func (w *undoComparison) advance(d generator) {
	period := windowOf(w.with.limit)
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

// later are instants from now on at which the undoComparison might differ.
func (w *undoComparison) laterInstants(d generator) []int64 {
	instants := []int64{w.now, w.now + 1, w.now + d.scaled(1, 3*windowOf(w.with.limit))}
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

// TestUndoRefundsAtMostTheTake checks that, whatever other clients spent in
// between, a key after an undo never has more units remaining than without the take.
// (TestPeekMatchesTake checks that the remaining units are allowed.)
func TestUndoRefundsAtMostTheTake(t *testing.T) {
	forEachUndo(t, func(t *testing.T, d generator, w *undoComparison) {
		before, kept := w.with.String(), w.with.storedState()
		w.with.undo(w.now, w.undone)
		if w.with.algorithm.Name.Refill() == headgate.RefillStepped && w.with.storedState() == kept {
			return // its intervals may begin earlier than without the take: see sendOtherRequest
		}
		for _, at := range w.laterInstants(d) {
			if got, most := w.with.remaining(at), w.without.remaining(at); got > most {
				t.Fatalf("%s: %+v undone at %d leaves %s:\nat %d got %d remaining, %d if it had not been taken: %v",
					before, w.undone, w.now, w.with.storedState(), at, got, most, w.without)
			}
		}
	})
}

// TestUndoRestoresState checks that the state is the same as without the take if no
// other request used the key. That also applies after the clock went back, except for a
// log, from which the take has removed aged-out entries.
func TestUndoRestoresState(t *testing.T) {
	forEachUndo(t, func(t *testing.T, d generator, w *undoComparison) {
		if w.others > 0 {
			return
		}
		if w.with.log == nil && d.oneIn(4) {
			w.now = max(0, w.undone.at-d.scaled(1, maxInstant))
		}
		before := w.with.String()
		w.with.undo(w.now, w.undone)
		for _, at := range w.laterInstants(d) {
			if got, want := w.with.observed(at), w.without.observed(at); got != want {
				t.Fatalf("%s: %+v undone at %d leaves %s, at %d\ngot  %swant %s", before, w.undone, w.now, w.with.storedState(), at, got, want)
			}
		}
	})
}

// TestGuaranteeWithUndo runs several concurrent takes, many of which are undone in any
// order, and checks that the remaining takes keep the guarantee. It leaves out one case
// that Undo cannot detect: the bucket's state equals the state after the take although it
// was lower in between. That requires another undo and a take that cancel out to the
// microsecond.
func TestGuaranteeWithUndo(t *testing.T) { // T3, T28
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		d := newGenerator(*seedFlag, 503)
		for range 1500 {
			l := d.busyLimit(a)
			log := undoTrace(d, newKey(a, l))
			if span, units, broken := worstViolation(log, guarantee(a.Name, l)); broken {
				t.Fatalf("%s %v: %d units went ahead within %d µs", a.Name, l, units, span)
			}
		}
	})
}

func undoTrace(d generator, k *key) (log []admission) {
	var under []taken
	newest := taken{} // if nothing happened since
	most := 1 + d.upTo(k.limit.Capacity()-1)
	now, last := year2026+d.upTo(1e9), headgate.Decision{}
	for range 150 {
		now = d.nextBusyInstant(now, k.limit, last)
		if len(under) > 0 && d.oneIn(2) {
			i := d.IntN(len(under))
			if u := under[i]; k.log != nil || k.state != u.after || u == newest {
				k.undo(now, u)
			} else {
				log = append(log, admission{u.at, u.n})
			}
			under, newest = slices.Delete(under, i, i+1), taken{}
			continue
		}
		n := 1 + d.upTo(most-1)
		u, ok := k.spend(now, n)
		last = k.peek(now, n)
		switch {
		case !ok:
		case d.oneIn(2):
			under, newest = append(under, u), u
		default:
			log, newest = append(log, admission{now, n}), taken{}
		}
	}
	for _, u := range under {
		log = append(log, admission{u.at, u.n})
	}
	return log
}

// TestUndoKeepsUncertainState checks that an undo does not change the key if the state
// without the take is unknown.
func TestUndoKeepsUncertainState(t *testing.T) {
	const start = year2026
	book := func(k *key, t, n int64) {
		k.run(step{verb: reserve, t: t, n: n, maxDelay: hundredYear})
	}
	for _, c := range []struct {
		name   string
		of     headgate.Algorithm
		others func(k *key)
		at     int64
	}{
		{"a later unit in the queue", headgate.LeakyBucket, func(k *key) { k.take(start, 1) }, 0},
		{"a reservation that is not due yet", headgate.TokenBucket, func(k *key) { book(k, start, 9) }, 400_000 - 1},
		{"an owed token", headgate.TokenBucketInterval, func(k *key) { book(k, start, 9) }, second / 2},
		{"a refill", headgate.TokenBucketInterval, func(k *key) { k.take(start+second, 1) }, second},
		{"all refunded already", headgate.TokenBucketInterval, func(k *key) { k.refund(start, 4) }, 0},
		{"another limit", headgate.TokenBucket, func(k *key) {
			k.setLimit(headgate.MustParseLimit("11/s burst 10"))
			k.take(start+1, 1)
			k.setLimit(headgate.MustParseLimit("10/s burst 10"))
		}, 2},
		{"the clock went back, a bucket", headgate.TokenBucket, func(k *key) { k.take(start, 1) }, -1},
		{"the clock went back, intervals", headgate.TokenBucketInterval, func(k *key) { k.take(start, 1) }, -1},
		{"a bucket that was full again", headgate.TokenBucket, func(k *key) { k.refund(start+1, 5) }, second / 10},
		{"longer than the refill of the units", headgate.TokenBucket, func(k *key) { k.take(start, 5) }, second/2 + 1},
		{"the next window", headgate.FixedWindow, func(k *key) { k.take(start+second, 8) }, second},
		{"the window after the next", headgate.SlidingWindow, func(k *key) {
			k.take(start+second, 5)
			k.take(start+2*second, 5)
		}, 2 * second},
		{"no room in the log", headgate.SlidingLog, func(k *key) {
			k.do(&step{verb: take, t: start + 1, n: 1}, &result{})
		}, 2},
		{"earlier units in the log", headgate.SlidingLog, func(k *key) {
			k.forget()
			k.take(start-1, 8)
		}, 0},
	} {
		k := keyOf(t, c.of, "10/s")
		u, ok := k.spend(start, 5)
		if c.others(k); !ok {
			t.Fatalf("%s: %v denies 5", c.name, k)
		}
		want := k.storedState()
		if k.undo(start+c.at, u); k.storedState() != want {
			t.Errorf("%s after 5 of %s: undone %+d µs later, got state %s want %s", c.name, c.of, c.at, k.storedState(), want)
		}
	}
}

// TestUndoAfterDueReservation checks that a take is undone normally after a later
// reservation became due.
func TestUndoAfterDueReservation(t *testing.T) {
	k := keyOf(t, headgate.TokenBucket, "10/s burst 10")
	u, _ := k.spend(year2026, 8)
	k.run(step{verb: reserve, t: year2026, n: 4, maxDelay: second}) // due in 200 ms
	k.undo(year2026+200_000, u)
	// The 2 units that are refilled in 200 ms anyway are not refunded.
	if got, want := k.remaining(year2026+200_000), int64(6); got != want {
		t.Errorf("8 taken, 4 booked, 8 undone 200 ms later: got %d remaining want %d", got, want)
	}
}
