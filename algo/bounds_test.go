package algo_test

import (
	"cmp"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// admission is a number of units that were allowed at one instant.
type admission struct{ at, units int64 }

// tooMany reports whether units within a span in µs, including both ends, exceed an upper
// bound.
type tooMany func(span, units int64) bool

// guarantee returns the documented upper bound of an algorithm under a limit.
func guarantee(name headgate.Algorithm, l headgate.Limit) tooMany {
	rate, period, capacity := l.Rate, l.Period.Microseconds(), l.Capacity()
	switch {
	case name == headgate.SlidingLog: // L in less than P
		return func(span, units int64) bool { return span < period && units > rate }
	case name == headgate.SlidingWindow: // L·(1 + s/P) in a span s up to P
		return func(span, units int64) bool { return span <= period && above(units-rate, period, span, rate) }
	case name.Windowed(): // 2·L in a span of P, which touches two windows
		return func(span, units int64) bool { return span <= period && units > 2*rate }
	case name.Refill() == headgate.RefillStepped: // B, and R at the end of each interval
		return func(span, units int64) bool { return units > capacity+rate*((span+period-1)/period) }
	case name.Refill() == headgate.RefillContinuous: // B + s·L/P
		return func(span, units int64) bool { return above(units-capacity, period, span, rate) }
	default:
		panic("no guarantee is stated for " + name)
	}
}

// above reports whether a·b > c·d, computed exactly.
func above(a, b, c, d int64) bool {
	if a <= 0 {
		return false
	}
	h1, l1 := bits.Mul64(uint64(a), uint64(b))
	h2, l2 := bits.Mul64(uint64(c), uint64(d))
	return h1 > h2 || h1 == h2 && l1 > l2
}

// worstViolation checks every span that begins and ends with an admission. Of the spans
// that exceed the bound it returns the one with the most units; broken is false if no
// span does.
func worstViolation(log []admission, over tooMany) (span, units int64, broken bool) {
	slices.SortFunc(log, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	for i := range log {
		sum := int64(0)
		for _, last := range log[i:] {
			sum += last.units
			if over(last.at-log[i].at, sum) && sum > units {
				span, units, broken = last.at-log[i].at, sum, true
			}
		}
	}
	return span, units, broken
}

// busyLimit returns a small limit with a short period, so that allows and denials
// alternate often.
func (d generator) busyLimit(a algo.Algorithm) headgate.Limit {
	for {
		l := headgate.Limit{Rate: 1 + d.upTo(40), Period: time.Duration(d.scaled(1000, 10_000_000)) * time.Microsecond}
		if d.oneIn(2) {
			l.Burst = 1 + d.upTo(40)
		}
		if accepts(a, l) {
			return l
		}
	}
}

// nextBusyInstant returns the time of the next request of busy traffic. It is never
// earlier than now, and often the first time at which the denied units are available.
func (d generator) nextBusyInstant(now int64, l headgate.Limit, last headgate.Decision) int64 {
	switch d.IntN(6) {
	case 0, 1:
		return now
	case 2:
		return now + last.RetryAfter.Microseconds()
	case 3:
		return now + last.ResetAfter.Microseconds()
	default:
		return now + d.scaled(1, l.Period.Microseconds())
	}
}

func TestGuaranteeInAnySpan(t *testing.T) { // T28
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		d := newGenerator(*seedFlag, 500)
		for range 400 {
			k := newKey(a, d.busyLimit(a))
			now, last := year2026+d.upTo(1e9), headgate.Decision{}
			var log []admission
			for range 150 {
				now = d.nextBusyInstant(now, k.limit, last)
				n := 1 + d.upTo(min(k.limit.Capacity(), 1+d.upTo(k.limit.Capacity())))
				if last = k.take(now, n); last.Allowed {
					log = append(log, admission{now, n})
				}
			}
			if span, units, broken := worstViolation(log, guarantee(a.Name, k.limit)); broken {
				t.Fatalf("%v: %d units were allowed within %d µs", k, units, span)
			}
		}
	})
}

// guaranteeWithReservations returns the guarantee with reservations. Their times are
// rounded up, so two of them may be up to 1 µs closer together than their units.
// Reservations that waited for the end of an interval may be served together with the
// next refill.
func guaranteeWithReservations(name headgate.Algorithm, l headgate.Limit) tooMany {
	if name.Refill() == headgate.RefillStepped {
		return func(span, units int64) bool { return units > l.Capacity()+l.Rate*(span/l.Period.Microseconds()+1) }
	}
	over := guarantee(name, l)
	return func(span, units int64) bool { return over(span+1, units) }
}

// TestGuaranteeWithReservations counts a reservation at its reserved
// time. A reservation that was cancelled before does not count.
func TestGuaranteeWithReservations(t *testing.T) { // T31
	for _, a := range slices.DeleteFunc(algo.Rates(), func(a algo.Algorithm) bool { return !canReserve(a) }) {
		t.Run(string(a.Name), func(t *testing.T) {
			t.Parallel()
			d := newGenerator(*seedFlag, 501)
			for range 1500 {
				l := d.busyLimit(a)
				log := reservationTrace(d, newKey(a, l))
				if span, units, broken := worstViolation(log, guaranteeWithReservations(a.Name, l)); broken {
					t.Fatalf("%s %v: %d units were allowed within %d µs", a.Name, l, units, span)
				}
			}
		})
	}
}

func reservationTrace(d generator, k *key) []admission {
	type booking struct {
		admission
		mark algo.State
	}
	var booked []booking
	now, last := year2026+d.upTo(1e9), headgate.Decision{}
	for range 100 {
		now = d.nextBusyInstant(now, k.limit, last)
		n := 1 + d.upTo(k.limit.Capacity()-1)
		switch d.IntN(4) {
		case 0:
			if last = k.take(now, n); last.Allowed {
				booked = append(booked, booking{admission: admission{now + last.Delay.Microseconds(), n}})
			}
		case 1, 2:
			var r result
			k.do(&step{verb: reserve, t: now, n: n, maxDelay: d.scaled(1, 5*k.limit.Period.Microseconds())}, &r)
			if last = r.decision; r.ok {
				booked = append(booked, booking{admission{now + r.booked, n}, k.state})
			}
		default:
			if len(booked) == 0 {
				continue
			}
			i := max(0, len(booked)-1-d.IntN(3))
			if b := booked[i]; b.mark != (algo.State{}) && b.at > now {
				k.run(step{verb: cancel, t: now, n: b.units, mark: b.mark})
				booked = slices.Delete(booked, i, i+1)
			}
		}
	}
	log := make([]admission, len(booked))
	for i, b := range booked {
		log[i] = b.admission
	}
	return log
}

// TestCancelRefundsLastReservation checks that cancelling the newest reservation restores
// the key.
func TestCancelRefundsLastReservation(t *testing.T) { // T31
	forEachStep(t, stepsPerTest/4, func(t *testing.T, d generator, k *key, now, cost int64) {
		if !canReserve(k.algorithm) || now > maxInstant/2 {
			return
		}
		k.take(now, 0)
		want := k.observed(now)
		var r result
		k.do(&step{verb: reserve, t: now, n: cost, maxDelay: hundredYear}, &r)
		if !r.ok || r.booked == 0 {
			return
		}
		mark, behind := k.state, k.clone()
		k.run(step{verb: cancel, t: now, n: cost, mark: mark})
		if got := k.observed(now); got != want {
			t.Errorf("%v: %d booked and cancelled at %d:\ngot  %swant %s", k, cost, now, got, want)
		}
		if behind.do(&step{verb: reserve, t: now, n: 1, maxDelay: hundredYear}, &r); !r.ok {
			return
		}
		kept := behind.storedState()
		behind.run(step{verb: cancel, t: now, n: cost, mark: mark})
		if got := behind.storedState(); got != kept {
			t.Errorf("%v: %d cancelled at %d with a later reservation: got %s want %s", behind, cost, now, got, kept)
		}
		last := k.clone()
		last.state = mark
		last.run(step{verb: cancel, t: now + r.booked, n: cost, mark: mark}) // due by then
		if got := last.state; got != mark {
			t.Errorf("%v: %d cancelled after it was due: got state %v want %v", last, cost, got, mark)
		}
	})
}

// TestLeakyBucketSpacing checks that served units are at least T apart, whatever the
// arrivals.
func TestLeakyBucketSpacing(t *testing.T) {
	a, err := algo.Named(headgate.LeakyBucket)
	if err != nil {
		t.Fatal(err)
	}
	d := newGenerator(*seedFlag, 502)
	for range 400 {
		k := newKey(a, d.busyLimit(a))
		now, last := year2026+d.upTo(1e9), headgate.Decision{}
		var out []admission
		for range 100 {
			now = d.nextBusyInstant(now, k.limit, last)
			n := 1 + d.upTo(k.limit.Capacity()-1)
			if last = k.take(now, n); last.Allowed {
				out = append(out, admission{now + last.Delay.Microseconds(), n})
			}
		}
		for i := 1; i < len(out); i++ { // each is served less than 1 µs after its exact time
			if apart := out[i].at - out[i-1].at + 1; apart*k.limit.Rate <= out[i-1].units*k.limit.Period.Microseconds() {
				t.Fatalf("%v: %d units at %d, the next only %d µs later", k, out[i-1].units, out[i-1].at, apart-1)
			}
		}
	}
}

// TestBurstsAroundWindowBoundary spends all units just before a window boundary and all
// units from there on, with one attempt per millisecond. It checks the maximum of units
// in any span below one period. A bucket's interval begins one period before the
// boundary.
func TestBurstsAroundWindowBoundary(t *testing.T) { // T28
	for name, want := range map[headgate.Algorithm]int64{
		headgate.TokenBucket:         199, // a burst of 100 and one each 10 ms
		headgate.TokenBucketInterval: 199, // 99, and the refill 1 µs later
		headgate.FixedWindow:         200, // twice the limit within 1 ms
		headgate.SlidingLog:          100,
		headgate.SlidingWindow:       199, // 100 of which one stops counting each 10 ms
		headgate.LeakyBucket:         199,
	} {
		k := keyOf(t, name, "100/s")
		boundary := year2026 + 1_000_000
		if name == headgate.TokenBucketInterval {
			k.take(boundary-1_000_000, 1)
		}
		var log []admission
		for now := boundary - 1; now < boundary-1+1_000_000; now += 1000 {
			if n := k.remaining(now); n > 0 {
				k.take(now, n)
				log = append(log, admission{now, n})
			}
		}
		if _, got, _ := worstViolation(log, func(span, _ int64) bool { return span < 1_000_000 }); got != want {
			t.Errorf("%s 100/s, attacked at a window's boundary: got %d units within a second want %d", name, got, want)
		}
	}
}
