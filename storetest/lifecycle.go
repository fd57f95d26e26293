package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

func lifecycleChecks() []check {
	return []check{
		{name: "bind errors", rule: "Bind returns an error for a rule that the store cannot apply", once: checkBindErrors},
		{name: "cancelled context", rule: "a call with a cancelled context decides, or returns the context's error and changes nothing", perAlgorithm: checkCancelledContext},
		{name: "store clock", rule: "a call without an instant uses the store's own clock", perAlgorithm: checkStoreClock},
		{name: "closed store", rule: "a closed store returns ErrClosed", perAlgorithm: checkClosed},
		{name: "closed under load", rule: "calls during Close decide or return ErrClosed", once: checkClosedUnderLoad},
	}
}

func checkBindErrors(ts *tester) {
	limit := headgate.MustParseLimit("1/1s")
	mustReturn := func(what string, rule headgate.Rule, want error) {
		if b, err := ts.store.Bind(rule); !errors.Is(err, want) || b != nil {
			ts.failf("bind %s: got %v, error %v want nil and %v", what, b, err, want)
		}
	}
	mustReturn("an unknown algorithm", headgate.Rule{Limit: limit, Algorithm: "no such thing"}, headgate.ErrUnknownAlgorithm)
	for _, a := range model.Algorithms() {
		if slices.Contains(ts.options.Unsupported, a) {
			mustReturn(string(a)+", which is declared as unsupported", headgate.Rule{Limit: limit, Algorithm: a}, headgate.ErrUnsupported)
			continue
		}
		mustReturn(string(a)+" with a zero limit", headgate.Rule{Algorithm: a}, headgate.ErrInvalidLimit)
		if !a.Queues() {
			queued := headgate.Limit{Rate: 1, Period: time.Second, Queue: 5}
			mustReturn(string(a)+" with a queue", headgate.Rule{Limit: queued, Algorithm: a}, headgate.ErrInvalidLimit)
		}
	}
}

func checkCancelledContext(ts *tester, a headgate.Algorithm) {
	l := ts.limiter(a, "5/1m")
	over, cancel := context.WithCancel(background)
	cancel()
	left := int64(5)
	for range 3 {
		d, err := l.AllowAt(over, start.Time(), "key", 1)
		switch {
		case err == nil && d.Allowed:
			left--
		case !errors.Is(err, context.Canceled):
			ts.failf("%s: take with a cancelled context: got %s, error %v want a decision or context.Canceled", describe(l), formatDecision(d), err)
		}
		ts.mustRemain(l, start, "key", left, "after a take with a cancelled context")
	}
}

// checkStoreClock uses a period that does not end during the test. The test fails on
// the day on which a window of 366 days ends, because the store determines where
// windows begin.
func checkStoreClock(ts *tester, a headgate.Algorithm) {
	l := ts.limiter(a, "1/366d")
	d, err := l.Allow(background, "key")
	if ts.mustf(err, "take at the store's clock"); !d.Allowed {
		ts.failf("%s: first take at the store's clock: got %s want allowed", describe(l), formatDecision(d))
	}
	d, err = l.Allow(background, "key")
	ts.mustf(err, "take at the store's clock")
	if d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > 2*headgate.MaxPeriod {
		ts.failf("%s: second take at the store's clock: got %s want denied for at most two periods", describe(l), formatDecision(d))
	}
	if d := ts.peek(l, headgate.InstantOf(time.Now()), "key", 1); d.Allowed {
		ts.failf("%s: at this process's clock: got %s want denied, as at the store's clock", describe(l), formatDecision(d))
	}
	if later := ts.peek(l, headgate.InstantOf(time.Now().Add(2*headgate.MaxPeriod)), "key", 1); !later.Allowed {
		ts.failf("%s: two periods later: got %s want allowed", describe(l), formatDecision(later))
	}
}

func checkClosed(ts *tester, a headgate.Algorithm) {
	l := ts.limiter(a, "5/1m")
	rule := headgate.Rule{Scope: ts.name(), Limit: headgate.MustParseLimit("1/1s"), Algorithm: a}
	b, err := ts.store.Bind(rule)
	ts.mustf(err, "bind")
	ts.mustAllow(l, start, "key", 1)
	ts.mustf(ts.store.Close(), "close")
	calls := map[string]func() error{
		"take":   func() error { _, err := l.AllowAt(background, start.Time(), "key", 1); return err },
		"peek":   func() error { _, err := l.PeekAt(background, start.Time(), "key", 1); return err },
		"refund": func() error { _, err := l.RefundAt(background, start.Time(), "key", 1); return err },
		"reset":  func() error { _, err := l.ResetAt(background, start.Time(), "key"); return err },
		"AllowAll": func() error {
			_, err := headgate.AllowAllAt(background, start.Time(), headgate.Check{Limiter: l, Key: "key", Cost: 1})
			return err
		},
		"bind": func() error { _, err := ts.store.Bind(rule); return err },
	}
	if a.CanReserve() {
		calls["reserve"] = func() error { _, _, err := b.Reserve(background, start, "key", 1, 0); return err }
		calls["cancel"] = func() error { _, err := b.Cancel(background, start, "key", 1, headgate.ReservationToken{}); return err }
	}
	for what, call := range calls {
		if err := call(); !errors.Is(err, headgate.ErrClosed) {
			ts.failf("%s after Close: got error %v want ErrClosed", what, err)
		}
	}
	if err := ts.store.Close(); err != nil && !errors.Is(err, headgate.ErrClosed) {
		ts.failf("second Close: got error %v want nil or ErrClosed", err)
	}
}

func checkClosedUnderLoad(ts *tester) {
	l := ts.limiter(ts.options.algorithms()[0], "1000000/1s")
	ts.concurrently(func(g int) error {
		for i := range 200 {
			if g == 0 && i == 100 {
				return ts.store.Close()
			}
			_, err := l.AllowAt(background, start.Time(), "key", 1)
			if errors.Is(err, headgate.ErrClosed) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
