package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// start is the instant at which the tests begin: 2026-01-01, a whole number of days
// since the epoch.
const start = headgate.Instant(1_767_225_600_000_000)

// tester tests one rule on a store. If the store returns an error, a method of tester
// ends the test with a failure, so that a test contains only expectations.
type tester struct {
	options   Options
	store     headgate.Store
	random    *rand.Rand
	prefix    string // prefix of all names that the test uses
	nameCount int    // number of names used until now
	summary   string // a text that is logged if the test passes
}

// failure is the value with which a test panics in order to fail; tester.catch recovers
// it.
type failure struct{ error }

func (ts *tester) failf(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}

// mustf fails the test if err is not nil. The format describes what was attempted.
func (ts *tester) mustf(err error, format string, args ...any) {
	if err != nil {
		ts.failf("%s: %w", fmt.Sprintf(format, args...), err)
	}
}

// name returns a new policy name, which no other policy in any test has.
func (ts *tester) name() string {
	ts.nameCount++
	return fmt.Sprintf("%s %d", ts.prefix, ts.nameCount)
}

// limiter returns a limiter with one limit under a new policy name.
func (ts *tester) limiter(a headgate.Algorithm, limit string) *headgate.Limiter {
	return ts.limiterFor(headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}})
}

func (ts *tester) limiterFor(p headgate.Policy) *headgate.Limiter {
	l, err := headgate.New(ts.store, p, nil)
	ts.mustf(err, "bind %v as %q", p.Limits, p.Algorithm)
	return l
}

// callAt calls atClock if at is [headgate.StoreClock]. Otherwise it calls atTime with
// the time of the instant at.
func callAt[T any](at headgate.Instant, atClock func() (T, error), atTime func(time.Time) (T, error)) (T, error) {
	if at == headgate.StoreClock {
		return atClock()
	}
	return atTime(at.Time())
}

func (ts *tester) take(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d, err := callAt(at, func() (headgate.Decision, error) { return l.AllowN(background, key, cost) },
		func(now time.Time) (headgate.Decision, error) { return l.AllowAt(background, now, key, cost) })
	ts.mustf(err, "take %d", cost)
	return d
}

func (ts *tester) peek(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d, err := callAt(at, func() (headgate.Decision, error) { return l.PeekN(background, key, cost) },
		func(now time.Time) (headgate.Decision, error) { return l.PeekAt(background, now, key, cost) })
	ts.mustf(err, "peek %d", cost)
	return d
}

func (ts *tester) refund(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d, err := callAt(at, func() (headgate.Decision, error) { return l.RefundN(background, key, cost) },
		func(now time.Time) (headgate.Decision, error) { return l.RefundAt(background, now, key, cost) })
	ts.mustf(err, "refund %d", cost)
	return d
}

func (ts *tester) reset(l *headgate.Limiter, at headgate.Instant, key string) headgate.Decision {
	d, err := callAt(at, func() (headgate.Decision, error) { return l.Reset(background, key) },
		func(now time.Time) (headgate.Decision, error) { return l.ResetAt(background, now, key) })
	ts.mustf(err, "reset")
	return d
}

func (ts *tester) takeAll(at headgate.Instant, checks ...headgate.Check) headgate.Decision {
	d, err := callAt(at, func() (headgate.Decision, error) { return headgate.AllowAll(background, checks...) },
		func(now time.Time) (headgate.Decision, error) {
			return headgate.AllowAllAt(background, now, checks...)
		})
	ts.mustf(err, "take with %d checks", len(checks))
	return d
}

func (ts *tester) peekAll(at headgate.Instant, checks ...headgate.Check) headgate.Decision {
	d, err := callAt(at, func() (headgate.Decision, error) { return headgate.PeekAll(background, checks...) },
		func(now time.Time) (headgate.Decision, error) { return headgate.PeekAllAt(background, now, checks...) })
	ts.mustf(err, "peek with %d checks", len(checks))
	return d
}

// mustAllow takes cost units of key and requires that the take is allowed.
func (ts *tester) mustAllow(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d := ts.take(l, at, key, cost)
	if !d.Allowed {
		ts.failf("%s: take %d at %s: got %s want allowed", describe(l), cost, formatInstant(at), formatDecision(d))
	}
	return d
}

// mustDeny takes cost units of key and requires that the take is denied.
func (ts *tester) mustDeny(l *headgate.Limiter, at headgate.Instant, key string, cost int64) headgate.Decision {
	d := ts.take(l, at, key, cost)
	if d.Allowed {
		ts.failf("%s: take %d at %s: got %s want denied", describe(l), cost, formatInstant(at), formatDecision(d))
	}
	return d
}

// mustRemain requires that key has want units left at the instant at. why describes the
// situation in the failure message.
func (ts *tester) mustRemain(l *headgate.Limiter, at headgate.Instant, key string, want int64, why string) {
	if d := ts.peek(l, at, key, 0); d.Remaining != want {
		ts.failf("%s: %s: got %d remaining at %s want %d", describe(l), why, d.Remaining, formatInstant(at), want)
	}
}

// observation is everything that a caller can observe of a key: the decisions of peeks
// with several costs, at one instant and at later instants.
type observation []headgate.Decision

func (ts *tester) observe(l *headgate.Limiter, at headgate.Instant, key string) observation {
	limit := l.Policy().Limits[0]
	period := headgate.Instant(periodOf(limit))
	var decisions observation
	for _, later := range []headgate.Instant{0, 1, period / 3, period, 2*period + 1} {
		for _, cost := range []int64{0, 1, limit.Rate, limit.Capacity()} {
			decisions = append(decisions, ts.peek(l, at+later, key, cost))
		}
	}
	return decisions
}

// mustEqual requires that got equals want. The parameter what describes the situation
// in the failure message.
func (ts *tester) mustEqual(got, want observation, l *headgate.Limiter, what string) {
	for i := range want {
		if !equalDecisions(got[i], want[i]) {
			ts.failf("%s: %s: got %s want %s", describe(l), what, formatDecision(got[i]), formatDecision(want[i]))
		}
	}
}

// equalDecisions reports whether two decisions are equal. DeniedBy is compared as a
// set, because a limit that denied twice in one request may be listed once or twice.
func equalDecisions(a, b headgate.Decision) bool {
	return a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay &&
		containsAll(a.DeniedBy, b.DeniedBy) && containsAll(b.DeniedBy, a.DeniedBy)
}

func containsAll(names, others []string) bool {
	for _, other := range others {
		if !slices.Contains(names, other) {
			return false
		}
	}
	return true
}

// formatDecision returns a decision as one line of text, with waits in µs.
func formatDecision(d headgate.Decision) string {
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

// describe returns the algorithm and the limits of a limiter as text, without the
// policy name, because that is generated.
func describe(l *headgate.Limiter) string {
	p := l.Policy()
	return fmt.Sprintf("%s %v", p.Algorithm, p.Limits)
}

// formatInstant returns an instant as text, relative to the constant start.
func formatInstant(at headgate.Instant) string {
	return "start+" + (time.Duration(at-start) * time.Microsecond).String()
}
