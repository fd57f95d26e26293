package storetest

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
)

func reservationChecks() []check {
	return []check{
		{name: "reserve", rule: "a reservation takes units that become available within its maximum delay; a rejected reservation changes nothing", once: forEachReserving(checkReserve)},
		{name: "reserve delay", rule: "the delay of a reservation is exact to the microsecond", once: forEachReserving(checkReserveDelay)},
		{name: "cancel", rule: "cancelling a reservation refunds its units", once: forEachReserving(checkCancel)},
		{name: "cancel keeps later reservations", rule: "cancelling a reservation does not change later reservations; a reservation that is due stays spent", once: forEachReserving(checkCancelKeepsLater)},
		{name: "cancel refunds at most its units", rule: "cancelling a reservation refunds at most its units", once: forEachReserving(checkCancelBounded)},
		{name: "reserve unsupported", rule: "an algorithm without reservations returns ErrUnsupported", once: checkReserveUnsupported},
		{name: "spacing", rule: "Spacing returns a lower bound of the time that more units need", perAlgorithm: checkSpacing},
	}
}

// forEachReserving returns a check that calls test for every algorithm that supports
// reservations.
func forEachReserving(test func(*tester, headgate.Algorithm)) func(*tester) {
	return func(ts *tester) {
		for _, a := range ts.options.algorithms() {
			if a.CanReserve() {
				test(ts, a)
			}
		}
	}
}

func (ts *tester) reserve(l *headgate.Limiter, at headgate.Instant, cost int64, maxDelay time.Duration) *headgate.Reservation {
	r, err := callAt(at, func() (*headgate.Reservation, error) { return l.Reserve(background, "key", cost, maxDelay) },
		func(now time.Time) (*headgate.Reservation, error) {
			return l.ReserveAt(background, now, "key", cost, maxDelay)
		})
	ts.mustf(err, "%s: reserve %d", describe(l), cost)
	return r
}

func (ts *tester) mustReserve(l *headgate.Limiter, at headgate.Instant, cost int64, want time.Duration) *headgate.Reservation {
	r := ts.reserve(l, at, cost, headgate.MaxFillTime)
	if !r.OK() || r.Delay() != want {
		ts.failf("%s: reserve %d at %s: got %s want accepted with delay %v", describe(l), cost, formatInstant(at), formatDecision(r.Decision()), want)
	}
	return r
}

func (ts *tester) cancel(r *headgate.Reservation, at headgate.Instant) {
	_, err := callAt(at, func() (struct{}, error) { return struct{}{}, r.Cancel(background) },
		func(now time.Time) (struct{}, error) { return struct{}{}, r.CancelAt(background, now) })
	ts.mustf(err, "cancel")
}

// exhausted returns a limiter with the limit 1/1s and a capacity of 2, after both units
// were spent. next is the delay of a reservation of one unit; each further unit becomes
// available 1 s after the previous one. A leaky bucket delays a request until its queue
// is empty, which takes 2 s.
func (ts *tester) exhausted(a headgate.Algorithm) (l *headgate.Limiter, next time.Duration) {
	l = ts.limiter(a, "1/1s burst 2")
	ts.mustAllow(l, start, "key", 2)
	if a.Queues() {
		return l, 2 * time.Second
	}
	return l, time.Second
}

func checkReserve(ts *tester, a headgate.Algorithm) {
	l, next := ts.exhausted(a)
	ts.mustReserve(l, start, 1, next)
	ts.mustReserve(l, start, 1, next+time.Second)
	if r := ts.reserve(l, start, 0, 0); !r.OK() {
		ts.failf("%s: reserve 0: got %s want accepted: it needs no units", describe(l), formatDecision(r.Decision()))
	}
	before := ts.observe(l, start, "key")
	r := ts.reserve(l, start, 1, next+2*time.Second-time.Microsecond)
	if d := r.Decision(); r.OK() || d.Allowed || d.Delay != 0 || d.RetryAfter == 0 {
		ts.failf("%s: reserve 1 with a maximum delay that is 1 µs too short: got %s want rejected with a wait", describe(l), formatDecision(d))
	}
	ts.cancel(r, start)
	ts.mustEqual(ts.observe(l, start, "key"), before, l, "after a rejected reservation was cancelled")
	if r := ts.reserve(l, start, 3, headgate.MaxFillTime); r.OK() || !r.Decision().Never {
		ts.failf("%s: reserve 3 of 2: got %s want never", describe(l), formatDecision(r.Decision()))
	}
	ts.mustEqual(ts.observe(l, start, "key"), before, l, "after a reservation above the limit")
	if r := ts.reserve(l, start, 1, next+2*time.Second); !r.OK() {
		ts.failf("%s: reserve 1 with exactly the maximum delay: got %s want accepted", describe(l), formatDecision(r.Decision()))
	}
}

// checkReserveDelay checks that the delay of a reservation equals the wait that a peek
// with the same cost returns.
func checkReserveDelay(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		cost := 1 + ts.random.Int64N(maxCost(a, u.limit))
		want := ts.peek(u.limiter, u.at, "key", cost)
		wait := want.RetryAfter
		if a.Queues() {
			// a leaky bucket delays a request until the queue is empty
			wait = ts.peek(u.limiter, u.at, "key", 0).Delay
		}
		if wait > 0 {
			again := want.RetryAfter
			if want.Allowed {
				// a leaky bucket admits the request, but its delay is 1 µs longer than
				// allowed
				again = time.Microsecond
			}
			if r := ts.reserve(u.limiter, u.at, cost, wait-time.Microsecond); r.OK() {
				ts.failf("%s: reserve %d within 1 µs less than its wait of %v: got accepted want rejected", describe(u.limiter), cost, wait)
			} else if got := r.Decision().RetryAfter; got != again {
				ts.failf("%s: reserve %d rejected: got retry_after %v want %v", describe(u.limiter), cost, got, again)
			}
		}
		r := ts.reserve(u.limiter, u.at, cost, wait)
		if !r.OK() || r.Delay() != wait {
			ts.failf("%s: reserve %d within its wait of %v: got %s want accepted with that delay", describe(u.limiter), cost, wait, formatDecision(r.Decision()))
		}
	})
}

func checkCancel(ts *tester, a headgate.Algorithm) {
	l, next := ts.exhausted(a)
	before := ts.observe(l, start, "key")
	first := ts.mustReserve(l, start, 1, next)
	reserved := ts.observe(l, start, "key")
	second := ts.reserve(l, start, 2, headgate.MaxFillTime)
	ts.cancel(second, start+1)
	ts.mustEqual(ts.observe(l, start, "key"), reserved, l, "after the second of two reservations was cancelled")
	ts.cancel(second, start+1)
	ts.mustEqual(ts.observe(l, start, "key"), reserved, l, "after it was cancelled twice")
	ts.cancel(first, start+2)
	ts.mustEqual(ts.observe(l, start, "key"), before, l, "after all reservations were cancelled")
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		cost := maxCost(a, u.limit)
		if ts.take(u.limiter, u.at, "key", cost); ts.take(u.limiter, u.at, "key", 1).Allowed {
			return
		}
		before := ts.observe(u.limiter, u.at, "key")
		if r := ts.reserve(u.limiter, u.at, 1+ts.random.Int64N(cost), headgate.MaxFillTime); r.Delay() > 0 {
			ts.cancel(r, u.at)
			ts.mustEqual(ts.observe(u.limiter, u.at, "key"), before, u.limiter, "after a reservation and its cancellation")
		}
	})
}

func checkCancelKeepsLater(ts *tester, a headgate.Algorithm) {
	l, next := ts.exhausted(a)
	first := ts.mustReserve(l, start, 1, next)
	ts.mustReserve(l, start, 1, next+time.Second)
	before := ts.observe(l, start, "key")
	ts.cancel(first, start)
	ts.mustEqual(ts.observe(l, start, "key"), before, l, "after cancelling 1 unit with a later reservation of 1")
	ts.mustReserve(l, start, 1, next+2*time.Second)

	l, next = ts.exhausted(a)
	due := ts.mustReserve(l, start, 1, next)
	late := start + headgate.Instant(next.Microseconds())
	before = ts.observe(l, late, "key")
	ts.cancel(due, late)
	ts.mustEqual(ts.observe(l, late, "key"), before, l, "after cancelling a reservation that is due")
}

// checkCancelBounded refunds units between a reservation and its cancellation. The
// cancellation must not refund the same units again.
func checkCancelBounded(ts *tester, a headgate.Algorithm) {
	l := ts.limiter(a, "1/1s burst 10")
	ts.mustAllow(l, start, "key", 10)
	r := ts.reserve(l, start, 5, headgate.MaxFillTime)
	ts.refund(l, start, "key", 3)
	ts.cancel(r, start)
	if d := ts.peek(l, start, "key", 0); d.Remaining > 3 {
		ts.failf("%s: 10 spent, 5 reserved, 3 refunded and the 5 cancelled: got %d remaining want at most 3", describe(l), d.Remaining)
	}

	l = ts.limiter(a, "1/1s burst 10")
	ts.mustAllow(l, start, "key", 10)
	r = ts.reserve(l, start, 5, headgate.MaxFillTime)
	ts.reset(l, start, "key")
	ts.mustAllow(l, start, "key", 8)
	ts.cancel(r, start)
	if d := ts.peek(l, start, "key", 0); d.Remaining > 2+5 {
		ts.failf("%s: 5 reserved, reset, 8 spent and the 5 cancelled: got %d remaining want at most 7", describe(l), d.Remaining)
	}
}

func checkReserveUnsupported(ts *tester) {
	for _, a := range ts.options.algorithms() {
		l := ts.limiter(a, "1/1s")
		_, err := l.ReserveAt(background, start.Time(), "key", 1, time.Second)
		if a.CanReserve() {
			ts.mustf(err, "%s: reserve", describe(l))
			continue
		}
		if !errors.Is(err, headgate.ErrUnsupported) {
			ts.failf("%s: reserve: got error %v want ErrUnsupported", describe(l), err)
		}
		ts.mustRemain(l, start, "key", 1, "after a rejected reservation")
		b, err := ts.store.Bind(headgate.Rule{Scope: ts.name(), Limit: headgate.MustParseLimit("1/1s"), Algorithm: a})
		ts.mustf(err, "bind")
		if _, err := b.Cancel(background, start, "key", 1, headgate.ReservationToken{}); !errors.Is(err, headgate.ErrUnsupported) || b.CanReserve() {
			ts.failf("%s: cancel: got error %v and CanReserve()=%v want ErrUnsupported and false", describe(l), err, b.CanReserve())
		}
	}
}

// checkSpacing spends cost units when they become available. The wait until n further
// units are available must then be at least Spacing(n).
func checkSpacing(ts *tester, a headgate.Algorithm) {
	ts.parallel(ts.stateCount(), func(ts *tester) {
		u := ts.randomState(a, "key")
		b, err := ts.store.Bind(headgate.Rule{Scope: ts.name(), Name: "rule", Limit: u.limit, Algorithm: a})
		ts.mustf(err, "bind")
		limit := maxCost(a, u.limit)
		if b.Limit() != limit {
			ts.failf("%s: Limit(): got %d want %d", describe(u.limiter), b.Limit(), limit)
		}
		cost := 1 + ts.random.Int64N(limit)
		wait := ts.take(u.limiter, u.at, "key", cost).RetryAfter
		if wait == 0 {
			return
		}
		served := u.at + headgate.Instant(wait.Microseconds())
		ts.mustAllow(u.limiter, served, "key", cost)
		for _, n := range []int64{1, 2, limit/2 + 1, limit} {
			if n > limit {
				continue
			}
			d := ts.peek(u.limiter, served, "key", n)
			if got := b.Spacing(n); got < 0 || got > d.RetryAfter {
				ts.failf("%s: Spacing(%d): got %v want at most %v: so many more units were available by then", describe(u.limiter), n, got, d.RetryAfter)
			}
		}
	})
}
