package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// start is the instant at which checks begin: 2026-01-01, a whole number of days since the epoch.
const start = headgate.Instant(1_767_225_600_000_000)

// judge is one look at a store. Its verbs end the check with a failure when the store cannot decide, so that checks read as
// what they expect.
type judge struct {
	options Options
	store   headgate.Store
	random  *rand.Rand
	prefix  string // of every name that this look uses
	named   int    // how many names it has used
	seen    string // what a look without a failure tells
}

// failure is how a check ends early; see Options.run.
type failure struct{ error }

func (j *judge) failf(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// mustf fails with err, if there is one.
func (j *judge) mustf(err error, format string, args ...any) {
	if err != nil {
		j.failf("%s: %w", fmt.Sprintf(format, args...), err)
	}
}

// name is one that no other policy of this or another check has.
func (j *judge) name() string {
	j.named++
	return fmt.Sprintf("%s %d", j.prefix, j.named)
}

// limiter decides by one limit under a fresh name.
func (j *judge) limiter(a headgate.Algorithm, limit string) *headgate.Limiter {
	return j.limiterFor(headgate.Policy{Name: j.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}})
}

func (j *judge) limiterFor(p headgate.Policy) *headgate.Limiter {
	l, err := headgate.New(j.store, p, nil)
	j.mustf(err, "bind %v as %q", p.Limits, p.Algorithm)
	return l
}

// on calls atClock for [headgate.StoreClock], and otherwise atTime with the time of the instant.
func on[T any](at headgate.Instant, atClock func() (T, error), atTime func(time.Time) (T, error)) (T, error) {
	if at == headgate.StoreClock {
		return atClock()
	}
	return atTime(at.Time())
}

func (j *judge) take(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d, err := on(at, func() (headgate.Decision, error) { return l.AllowN(background, key, cost) },
		func(now time.Time) (headgate.Decision, error) { return l.AllowAt(background, now, key, cost) })
	j.mustf(err, "take %d", cost)
	return d
}

func (j *judge) peek(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d, err := on(at, func() (headgate.Decision, error) { return l.PeekN(background, key, cost) },
		func(now time.Time) (headgate.Decision, error) { return l.PeekAt(background, now, key, cost) })
	j.mustf(err, "peek %d", cost)
	return d
}

func (j *judge) refund(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d, err := on(at, func() (headgate.Decision, error) { return l.RefundN(background, key, cost) },
		func(now time.Time) (headgate.Decision, error) { return l.RefundAt(background, now, key, cost) })
	j.mustf(err, "refund %d", cost)
	return d
}

func (j *judge) reset(l *headgate.Limiter, at headgate.Instant, key string) headgate.Decision {
	d, err := on(at, func() (headgate.Decision, error) { return l.Reset(background, key) },
		func(now time.Time) (headgate.Decision, error) { return l.ResetAt(background, now, key) })
	j.mustf(err, "reset")
	return d
}

func (j *judge) takeAll(at headgate.Instant, charges ...headgate.Check) headgate.Decision {
	d, err := on(at, func() (headgate.Decision, error) { return headgate.AllowAll(background, charges...) },
		func(now time.Time) (headgate.Decision, error) {
			return headgate.AllowAllAt(background, now, charges...)
		})
	j.mustf(err, "take %d charges", len(charges))
	return d
}

func (j *judge) peekAll(at headgate.Instant, charges ...headgate.Check) headgate.Decision {
	d, err := on(at, func() (headgate.Decision, error) { return headgate.PeekAll(background, charges...) },
		func(now time.Time) (headgate.Decision, error) { return headgate.PeekAllAt(background, now, charges...) })
	j.mustf(err, "peek at %d charges", len(charges))
	return d
}

// mustAllow and mustDeny take, and want that answer.
func (j *judge) mustAllow(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d := j.take(l, at, key, cost)
	if !d.Allowed {
		j.failf("%s: take %d at %s: got %s want allowed", describe(l), cost, since(at), show(d))
	}
	return d
}

func (j *judge) mustDeny(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d := j.take(l, at, key, cost)
	if d.Allowed {
		j.failf("%s: take %d at %s: got %s want denied", describe(l), cost, since(at), show(d))
	}
	return d
}

// mustHold wants so many units left.
func (j *judge) mustHold(l *headgate.Limiter, at headgate.Instant, key string, want int64, why string) {
	if d := j.peek(l, at, key, 0); d.Remaining != want {
		j.failf("%s: %s: got %d remaining at %s want %d", describe(l), why, d.Remaining, since(at), want)
	}
}

// view is what can be seen of a key from one instant: what it answers to several costs, then and later.
type view []headgate.Decision

func (j *judge) look(l *headgate.Limiter, at headgate.Instant, key string) view {
	limit := l.Policy().Limits[0]
	period := headgate.Instant(limit.Period.Microseconds())
	var seen view
	for _, later := range []headgate.Instant{0, 1, period / 3, period, 2*period + 1} {
		for _, cost := range []int64{0, 1, limit.Rate, limit.Capacity()} {
			seen = append(seen, j.peek(l, at+later, key, cost))
		}
	}
	return seen
}

// mustLookAs wants the same view as before.
func (j *judge) mustLookAs(got, want view, l *headgate.Limiter, what string) {
	for i := range want {
		if !same(got[i], want[i]) {
			j.failf("%s: %s: got %s want %s", describe(l), what, show(got[i]), show(want[i]))
		}
	}
}

// same compares two decisions. A limit that denied twice on one request may be named once or twice.
func same(a, b headgate.Decision) bool {
	return a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay &&
		namesAll(a.DeniedBy, b.DeniedBy) && namesAll(b.DeniedBy, a.DeniedBy)
}

func namesAll(names, others []string) bool {
	for _, other := range others {
		if !slices.Contains(names, other) {
			return false
		}
	}
	return true
}

// show writes a decision on one line, waits in µs.
func show(d headgate.Decision) string {
	text := fmt.Sprintf("{allowed=%v limit=%d remaining=%d retry_after=%d reset_after=%d delay=%d",
		d.Allowed, d.Limit, d.Remaining, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Delay.Microseconds())
	if d.Never {
		text += " never"
	}
	if len(d.DeniedBy) > 0 {
		text += fmt.Sprintf(" denied_by=%q", strings.Join(d.DeniedBy, ", "))
	}
	return text + "}"
}

// describe is a limiter's limit and algorithm: the generated name says nothing.
func describe(l *headgate.Limiter) string {
	p := l.Policy()
	return fmt.Sprintf("%s %v", p.Algorithm, p.Limits)
}

// since tells an instant of a check by its distance from start.
func since(at headgate.Instant) string {
	return "start+" + (time.Duration(at-start) * time.Microsecond).String()
}
