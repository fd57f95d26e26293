package storetest

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
)

func bookingChecks() []check {
	return []check{
		{name: "reserve", rule: "a reservation books what is still to come, up to the longest delay, and a refusal changes nothing", judge: onBookers(reserveBooksAhead)},
		{name: "reserve honest", rule: "a reservation's delay is the wait after which the units are there, to the microsecond", judge: onBookers(reserveIsHonest)},
		{name: "cancel", rule: "a cancelled reservation gives back what it booked", judge: onBookers(cancelGivesBack)},
		{name: "cancel behind", rule: "a cancelled reservation keeps what others have booked behind it, and what is due stays spent", judge: onBookers(cancelKeepsPromises)},
		{name: "cancel bounded", rule: "a cancelled reservation gives back at most what it booked", judge: onBookers(cancelIsBounded)},
		{name: "no bookings", rule: "an algorithm that cannot promise refuses reservations with ErrUnsupported", judge: othersRefuse},
		{name: "spacing", rule: "spacing is a lower bound of the time that more units need", each: spacingIsLowerBound},
	}
}

func onBookers(look func(*judge, headgate.Algorithm)) func(*judge) {
	return func(j *judge) {
		for _, a := range j.options.algorithms() {
			if a.CanReserve() {
				look(j, a)
			}
		}
	}
}

func (j *judge) reserve(l *headgate.Limiter, at headgate.Instant, cost int64, most time.Duration) *headgate.Reservation {
	r, err := on(at, func() (*headgate.Reservation, error) { return l.Reserve(background, "key", cost, most) },
		func(now time.Time) (*headgate.Reservation, error) {
			return l.ReserveAt(background, now, "key", cost, most)
		})
	j.mustf(err, "%s: reserve %d", describe(l), cost)
	return r
}

func (j *judge) mustBook(l *headgate.Limiter, at headgate.Instant, cost int64, want time.Duration) *headgate.Reservation {
	r := j.reserve(l, at, cost, headgate.MaxFillTime)
	if !r.OK() || r.Delay() != want {
		j.failf("%s: reserve %d at %s: got %s want booked with delay %v", describe(l), cost, since(at), show(r.Decision()), want)
	}
	return r
}

func (j *judge) cancel(r *headgate.Reservation, at headgate.Instant) {
	_, err := on(at, func() (struct{}, error) { return struct{}{}, r.Cancel(background) },
		func(now time.Time) (struct{}, error) { return struct{}{}, r.CancelAt(background, now) })
	j.mustf(err, "cancel")
}

// full is a limiter of a under 1/1s with a capacity of 2, both of which are spent: from here on every unit comes a second after
// the one before. A queue sends at once what it admits first, so its units come a second earlier.
func (j *judge) full(a headgate.Algorithm) (*headgate.Limiter, time.Duration) {
	l := j.limiter(a, "1/1s burst 2")
	j.mustAllow(l, start, "key", 2)
	if a.Queues() {
		return l, 2 * time.Second
	}
	return l, time.Second
}

func reserveBooksAhead(j *judge, a headgate.Algorithm) {
	l, next := j.full(a)
	j.mustBook(l, start, 1, next)
	j.mustBook(l, start, 1, next+time.Second)
	if r := j.reserve(l, start, 0, 0); !r.OK() {
		j.failf("%s: reserve 0: got %s want booked: it asks for nothing", describe(l), show(r.Decision()))
	}
	before := j.look(l, start, "key")
	r := j.reserve(l, start, 1, next+2*time.Second-time.Microsecond)
	if d := r.Decision(); r.OK() || d.Allowed || d.Delay != 0 || d.RetryAfter == 0 {
		j.failf("%s: reserve 1 that comes 1 µs after the longest delay: got %s want refused with a wait", describe(l), show(d))
	}
	j.cancel(r, start)
	j.mustLookAs(j.look(l, start, "key"), before, l, "after a refused reservation, cancelled or not")
	if r := j.reserve(l, start, 3, headgate.MaxFillTime); r.OK() || !r.Decision().Never {
		j.failf("%s: reserve 3 of 2: got %s want never", describe(l), show(r.Decision()))
	}
	j.mustLookAs(j.look(l, start, "key"), before, l, "after a reservation of more than the limit")
	if r := j.reserve(l, start, 1, next+2*time.Second); !r.OK() {
		j.failf("%s: reserve 1 that comes with the longest delay: got %s want booked", describe(l), show(r.Decision()))
	}
}

// reserveIsHonest compares a reservation with the wait that a take of the same cost is told.
func reserveIsHonest(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		cost := 1 + j.random.Int64N(mostOf(a, u.limit))
		want := j.peek(u.limiter, u.at, "key", cost)
		wait := want.RetryAfter
		if a.Queues() {
			wait = j.peek(u.limiter, u.at, "key", 0).Delay // it is held until the queue before it has drained
		}
		if wait > 0 {
			again := want.RetryAfter
			if want.Allowed {
				again = time.Microsecond // a queue admits it at once, but holds it back 1 µs too long
			}
			if r := j.reserve(u.limiter, u.at, cost, wait-time.Microsecond); r.OK() {
				j.failf("%s: reserve %d within 1 µs less than its wait of %v: got booked want refused", describe(u.limiter), cost, wait)
			} else if got := r.Decision().RetryAfter; got != again {
				j.failf("%s: reserve %d refused: got retry_after %v want %v", describe(u.limiter), cost, got, again)
			}
		}
		r := j.reserve(u.limiter, u.at, cost, wait)
		if !r.OK() || r.Delay() != wait {
			j.failf("%s: reserve %d within its wait of %v: got %s want booked with that delay", describe(u.limiter), cost, wait, show(r.Decision()))
		}
	})
}

func cancelGivesBack(j *judge, a headgate.Algorithm) {
	l, next := j.full(a)
	before := j.look(l, start, "key")
	first := j.mustBook(l, start, 1, next)
	held := j.look(l, start, "key")
	second := j.reserve(l, start, 2, headgate.MaxFillTime)
	j.cancel(second, start+1)
	j.mustLookAs(j.look(l, start, "key"), held, l, "after a reservation behind another was cancelled")
	j.cancel(second, start+1)
	j.mustLookAs(j.look(l, start, "key"), held, l, "after it was cancelled twice")
	j.cancel(first, start+2)
	j.mustLookAs(j.look(l, start, "key"), before, l, "after all reservations were cancelled")
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		cost := mostOf(a, u.limit)
		if j.take(u.limiter, u.at, "key", cost); j.take(u.limiter, u.at, "key", 1).Allowed {
			return
		}
		before := j.look(u.limiter, u.at, "key")
		if r := j.reserve(u.limiter, u.at, 1+j.random.Int64N(cost), headgate.MaxFillTime); r.Delay() > 0 {
			j.cancel(r, u.at)
			j.mustLookAs(j.look(u.limiter, u.at, "key"), before, u.limiter, "after a reservation and its cancellation")
		}
	})
}

func cancelKeepsPromises(j *judge, a headgate.Algorithm) {
	l, next := j.full(a)
	first := j.mustBook(l, start, 1, next)
	j.mustBook(l, start, 1, next+time.Second)
	before := j.look(l, start, "key")
	j.cancel(first, start)
	j.mustLookAs(j.look(l, start, "key"), before, l, "after the cancellation of 1 with 1 booked behind it")
	j.mustBook(l, start, 1, next+2*time.Second)

	l, next = j.full(a)
	due := j.mustBook(l, start, 1, next)
	late := start + headgate.Instant(next.Microseconds())
	before = j.look(l, late, "key")
	j.cancel(due, late)
	j.mustLookAs(j.look(l, late, "key"), before, l, "after the cancellation of a reservation that was due")
}

// cancelIsBounded gives units back between a booking and its cancellation: the two must not be counted twice.
func cancelIsBounded(j *judge, a headgate.Algorithm) {
	l := j.limiter(a, "1/1s burst 10")
	j.mustAllow(l, start, "key", 10)
	r := j.reserve(l, start, 5, headgate.MaxFillTime)
	j.refund(l, start, "key", 3)
	j.cancel(r, start)
	if d := j.peek(l, start, "key", 0); d.Remaining > 3 {
		j.failf("%s: 10 spent, 5 booked, 3 given back and the 5 cancelled: got %d remaining want at most 3", describe(l), d.Remaining)
	}

	l = j.limiter(a, "1/1s burst 10")
	j.mustAllow(l, start, "key", 10)
	r = j.reserve(l, start, 5, headgate.MaxFillTime)
	j.reset(l, start, "key")
	j.mustAllow(l, start, "key", 8)
	j.cancel(r, start)
	if d := j.peek(l, start, "key", 0); d.Remaining > 2+5 {
		j.failf("%s: 5 booked, reset, 8 spent and the 5 cancelled: got %d remaining want at most 7", describe(l), d.Remaining)
	}
}

func othersRefuse(j *judge) {
	for _, a := range j.options.algorithms() {
		l := j.limiter(a, "1/1s")
		_, err := l.ReserveAt(background, start.Time(), "key", 1, time.Second)
		if a.CanReserve() {
			j.mustf(err, "%s: reserve", describe(l))
			continue
		}
		if !errors.Is(err, headgate.ErrUnsupported) {
			j.failf("%s: reserve: got error %v want ErrUnsupported", describe(l), err)
		}
		j.mustHold(l, start, "key", 1, "after a refused reservation")
		b, err := j.store.Bind(headgate.Rule{Scope: j.name(), Limit: headgate.MustParseLimit("1/1s"), Algorithm: a})
		j.mustf(err, "bind")
		if _, err := b.Cancel(background, start, "key", 1, headgate.ReservationToken{}); !errors.Is(err, headgate.ErrUnsupported) || b.CanReserve() {
			j.failf("%s: cancel: got error %v and CanReserve()=%v want ErrUnsupported and false", describe(l), err, b.CanReserve())
		}
	}
}

// spacingIsLowerBound: who had to wait and was served, and then wants n more, waits at least Spacing(n).
func spacingIsLowerBound(j *judge, a headgate.Algorithm) {
	j.spread(j.states(), func(j *judge) {
		u := j.someState(a, "key")
		b, err := j.store.Bind(headgate.Rule{Scope: j.name(), Name: "rule", Limit: u.limit, Algorithm: a})
		j.mustf(err, "bind")
		most := mostOf(a, u.limit)
		if b.Limit() != most {
			j.failf("%s: Limit(): got %d want %d", describe(u.limiter), b.Limit(), most)
		}
		cost := 1 + j.random.Int64N(most)
		wait := j.take(u.limiter, u.at, "key", cost).RetryAfter
		if wait == 0 {
			return
		}
		served := u.at + headgate.Instant(wait.Microseconds())
		j.mustAllow(u.limiter, served, "key", cost)
		for _, n := range []int64{1, 2, most/2 + 1, most} {
			if n > most {
				continue
			}
			d := j.peek(u.limiter, served, "key", n)
			if got := b.Spacing(n); got < 0 || got > d.RetryAfter {
				j.failf("%s: Spacing(%d): got %v want at most %v: a caller served after a wait gets so many more after that", describe(u.limiter), n, got, d.RetryAfter)
			}
		}
	})
}
