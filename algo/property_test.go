package algo_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

func TestDenialConsumesNothing(t *testing.T) { // T2
	forEachStep(t, stepsPerTest, func(t *testing.T, _ generator, k *key, now, cost int64) {
		k.take(now, 0) // converts the state of another limit
		kept, seen := k.storedState(), k.observed(now)
		if k.take(now, cost).Allowed {
			return
		}
		if got := k.storedState(); k.algorithm.New != nil && got != kept {
			t.Errorf("%v: state after a denied %d at %d: got %s want %s", k, cost, now, got, kept)
		}
		if got := k.observed(now); got != seen {
			t.Errorf("%v: after a denied %d at %d:\ngot  %swant %s", k, cost, now, got, seen)
		}
	})
}

func TestDeniedCostIsNotSpent(t *testing.T) { // T2
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		k := newKey(a, headgate.MustParseLimit("10/s"))
		k.take(year2026, 8)
		if d := k.take(year2026, 5); d.Allowed || d.Remaining != 2 {
			t.Errorf("5 of the 2 left: got %+v want a denial with 2 remaining", d)
		}
		if d := k.take(year2026, 2); !d.Allowed || d.Remaining != 0 {
			t.Errorf("2 of the 2 left: got %+v want allowed", d)
		}
	})
}

func TestCostZeroIsPeek(t *testing.T) { // T22
	forEachStep(t, stepsPerTest, func(t *testing.T, _ generator, k *key, now, _ int64) {
		k.take(now, 0)
		kept, want := k.storedState(), k.peek(now, 0)
		d := k.take(now, 0)
		if !d.Allowed || d.Never || d.RetryAfter != 0 || k.storedState() != kept {
			t.Errorf("%v: take 0 at %d: got %+v, stored %s want it allowed and %s stored", k, now, d, k.storedState(), kept)
		}
		if d.Remaining != want.Remaining || d.ResetAfter != want.ResetAfter {
			t.Errorf("%v: take 0 at %d: got %+v want %+v", k, now, d, want)
		}
	})
}

func TestPeekMatchesTake(t *testing.T) { // T26
	forEachStep(t, stepsPerTest, func(t *testing.T, _ generator, k *key, now, cost int64) {
		decision := k.peek(now, cost)
		before := k.remaining(now)
		done := k.take(now, cost)
		if decision.Allowed != done.Allowed || decision.RetryAfter != done.RetryAfter || decision.Never != done.Never || decision.Delay != done.Delay {
			t.Errorf("%v: %d at %d: peek decision %+v, take %+v", k, cost, now, decision, done)
		}
		if want := before - cost; done.Allowed && done.Remaining != want {
			t.Errorf("%v: %d at %d: got %d remaining want %d", k, cost, now, done.Remaining, want)
		}
		if done.Allowed != (cost <= before || cost == 0) {
			t.Errorf("%v: %d at %d with %d remaining: got allowed=%t", k, cost, now, before, done.Allowed)
		}
	})
}

func TestTakeNEqualsNTakes(t *testing.T) {
	forEachStep(t, stepsPerTest/4, func(t *testing.T, d generator, k *key, now, _ int64) {
		n := d.upTo(min(k.remaining(now)+1, 30))
		single := k.clone()
		all := k.take(now, n).Allowed
		each := true
		for range n {
			each = single.take(now, 1).Allowed && each
		}
		if all != each {
			t.Errorf("%v: %d at %d: at once %t, one by one %t", k, n, now, all, each)
		}
		if got, want := single.observed(now), k.observed(now); all && (got != want || k.state != single.state) {
			t.Errorf("%v: %d at %d: one by one\ngot  %swant %s", k, n, now, got, want)
		}
	})
}

func TestRetryAfterIsExact(t *testing.T) { // T25
	forEachStep(t, stepsPerTest, func(t *testing.T, d generator, k *key, now, cost int64) {
		decision := k.take(now, cost)
		wait := decision.RetryAfter.Microseconds()
		switch {
		case decision.Allowed || decision.Never:
			if wait != 0 {
				t.Errorf("%v: %d at %d: got %+v want no retry_after", k, cost, now, decision)
			}
		case wait <= 0:
			t.Errorf("%v: %d denied at %d: got retry_after %d want a wait", k, cost, now, wait)
		case now+wait > maxInstant:
		case !k.allows(now+wait, cost):
			t.Errorf("%v: %d denied at %d: not allowed after RetryAfter, %d µs", k, cost, now, wait)
		case k.allows(now+wait-1, cost):
			t.Errorf("%v: %d denied at %d: allowed 1 µs before RetryAfter, %d µs", k, cost, now, wait)
		case k.allows(now+d.upTo(wait-1), cost):
			t.Errorf("%v: %d denied at %d: allowed long before RetryAfter, %d µs", k, cost, now, wait)
		}
	})
}

func TestResetAfterIsExact(t *testing.T) { // T6
	forEachStep(t, stepsPerTest, func(t *testing.T, d generator, k *key, now, cost int64) {
		decision := k.take(now, cost)
		wait := decision.ResetAfter.Microseconds()
		if got := max(0, k.resetAt(now)-now); got != wait {
			t.Errorf("%v at %d: the state is unused after %d µs, the decision reports %d", k, now, got, wait)
		}
		if now+wait > maxInstant {
			return
		}
		fresh := newKey(k.algorithm, k.limit)
		if got, want := k.observed(now+wait), fresh.observed(now+wait); got != want {
			t.Errorf("%v at %d: reset_after %d, but then\ngot  %swant %s", k, now, wait, got, want)
		}
		if wait > 0 && k.observed(now+wait-1) == fresh.observed(now+wait-1) {
			t.Errorf("%v at %d: reset_after %d, but it is unused 1 µs before", k, now, wait)
		}
		n := d.upTo(decision.Limit)
		later := min(maxInstant, now+wait+d.scaled(1, 3*windowOf(k.limit)))
		k.take(now+wait, n)
		fresh.take(now+wait, n)
		if got, want := k.observed(later), fresh.observed(later); got != want {
			t.Errorf("%v: used again at %d and peeked at %d:\ngot  %swant %s", k, now+wait, later, got, want)
		}
	})
}

func TestClockGoingBackDoesNotAllowMore(t *testing.T) { // T17
	forEachStep(t, stepsPerTest, func(t *testing.T, d generator, k *key, now, cost int64) {
		if !k.take(now, max(1, cost)).Allowed {
			return // then the state does not contain the time now
		}
		earlier := max(0, now-pick(d, 1, 1e6, 3600e6, d.scaled(1, maxInstant)))
		still, back := k.remaining(now), k.remaining(earlier)
		if k.resetAt(now) <= now {
			return // unused at now: a store may have deleted it
		}
		if back > still {
			t.Errorf("%v: %d remaining at %d but %d at %d, before it", k, still, now, back, earlier)
		}
		there := k.clone()
		there.take(earlier, back)
		if got := there.remaining(now); got > max(0, still-back) {
			t.Errorf("%v: %d spent at %d, before %d: got %d remaining want at most %d", k, back, earlier, now, got, still-back)
		}
	})
}

func TestRefundIsBoundedBySpentUnits(t *testing.T) { // T30
	forEachStep(t, stepsPerTest, func(t *testing.T, d generator, k *key, now, cost int64) {
		k.take(now, 0)
		before := k.peek(now, 0)
		k.take(now, cost)
		if d.oneIn(2) {
			cost = d.scaled(1, maxExact)
		}
		left := k.remaining(now)
		after := k.refund(now, cost)
		if after.Remaining > after.Limit || after.Remaining-left > cost || after.Remaining < left {
			t.Errorf("%v: refund %d at %d of %d remaining: got %+v", k, cost, now, left, after)
		}
		spent := k.clone()
		if n := d.upTo(after.Remaining); n > 0 {
			spent.take(now, n)
			if got := spent.refund(now, n); got.Remaining != after.Remaining || got.ResetAfter != after.ResetAfter {
				t.Errorf("%v: %d spent and refunded at %d: got %+v want %+v", k, n, now, got, after)
			}
		}
		if got := k.refund(now, maxExact); got.Remaining > got.Limit || got.Remaining < before.Remaining {
			t.Errorf("%v: everything refunded at %d: got %+v", k, now, got)
		}
	})
}

func TestStateFitsItsBits(t *testing.T) {
	forEachStep(t, stepsPerTest, func(t *testing.T, _ generator, k *key, now, cost int64) {
		k.take(now, cost)
		if s := k.state; s.A < 0 || s.A > maxExact || s.B < 0 || s.B >= 1<<30 || s.C < 0 || s.C >= 1<<30 {
			t.Errorf("%v: state after %d at %d: got %+v want A below 2^53, B and C below 2^30", k, cost, now, s)
		}
	})
}

// TestSpacingIsALowerBound checks that, after a request that had to wait is
// served at the first possible time, n more units are never available before the time
// that Spacing returns, even if they are requested as soon as possible.
func TestSpacingIsALowerBound(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		d := newGenerator(*seedFlag, 401)
		for range 300 {
			k := newKey(a, d.limit(a))
			now := year2026 + d.upTo(1e12)
			k.take(now, k.remaining(now))
			now += k.peek(now, 1).RetryAfter.Microseconds()
			k.take(now, 1)
			granted, served := int64(0), now
			for range 40 {
				n := min(d.scaled(1, k.peek(now, 0).Limit), 1+d.upTo(k.remaining(now)))
				if wait := k.peek(now, n).RetryAfter.Microseconds(); wait > 0 {
					now += wait
				}
				if now > maxInstant {
					break
				}
				k.take(now, n)
				granted += n
				if spacing := k.spacing(granted); now-served < spacing {
					t.Fatalf("%v: got %d units within %d µs, Spacing is %d", k, granted, now-served, spacing)
				}
			}
		}
	})
}

func (k *key) spacing(n int64) int64 {
	if k.log != nil {
		return k.log.Spacing(n)
	}
	return k.step.Spacing(n)
}
