package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

func lifeChecks() []check {
	return []check{
		{name: "bind", rule: "binding refuses at once what cannot work", judge: bindRefuses},
		{name: "cancelled context", rule: "a call whose context is over decides, or answers the context's error and has changed nothing", each: cancelledContext},
		{name: "store clock", rule: "without an instant the store's own clock decides", each: storeClock},
		{name: "closed", rule: "a closed store answers ErrClosed", each: closedAnswers},
		{name: "closed under load", rule: "a store that is closed while it is used decides or answers ErrClosed", judge: closedUnderLoad},
	}
}

func bindRefuses(j *judge) {
	limit := headgate.MustParseLimit("1/1s")
	refuse := func(what string, rule headgate.Rule, want error) {
		if b, err := j.store.Bind(rule); !errors.Is(err, want) || b != nil {
			j.failf("bind %s: got %v, error %v want none and %v", what, b, err, want)
		}
	}
	refuse("an unknown algorithm", headgate.Rule{Limit: limit, Algorithm: "no such thing"}, headgate.ErrUnknownAlgorithm)
	for _, a := range model.Algorithms() {
		if slices.Contains(j.options.Unsupported, a) {
			refuse(string(a)+", which is declared as unsupported", headgate.Rule{Limit: limit, Algorithm: a}, headgate.ErrUnsupported)
			continue
		}
		refuse(string(a)+" with a zero limit", headgate.Rule{Algorithm: a}, headgate.ErrInvalidLimit)
		if !a.Queues() {
			queued := headgate.Limit{Rate: 1, Period: time.Second, Queue: 5}
			refuse(string(a)+" with a queue", headgate.Rule{Limit: queued, Algorithm: a}, headgate.ErrInvalidLimit)
		}
	}
}

func cancelledContext(j *judge, a headgate.Algorithm) {
	l := j.limiter(a, "5/1m")
	over, cancel := context.WithCancel(background)
	cancel()
	left := int64(5)
	for range 3 {
		d, err := l.AllowAt(over, start.Time(), "key", 1)
		switch {
		case err == nil && d.Allowed:
			left--
		case !errors.Is(err, context.Canceled):
			j.failf("%s: take with a cancelled context: got %s, error %v want a decision or context.Canceled", describe(l), show(d), err)
		}
		j.mustHold(l, start, "key", left, "after a take with a cancelled context")
	}
}

// storeClock uses a period so long that no test run sees the end of it. Where windows begin it cannot know: the day that a
// window of 366 days ends is no day to wonder about this test.
func storeClock(j *judge, a headgate.Algorithm) {
	l := j.limiter(a, "1/366d")
	d, err := l.Allow(background, "key")
	if j.mustf(err, "take at the store's clock"); !d.Allowed {
		j.failf("%s: first take at the store's clock: got %s want allowed", describe(l), show(d))
	}
	d, err = l.Allow(background, "key")
	j.mustf(err, "take at the store's clock")
	if d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > 2*headgate.MaxPeriod {
		j.failf("%s: second take at the store's clock: got %s want denied for at most two periods", describe(l), show(d))
	}
	if d := j.peek(l, headgate.InstantOf(time.Now()), "key", 1); d.Allowed {
		j.failf("%s: at this process's clock: got %s want denied, as at the store's", describe(l), show(d))
	}
	if later := j.peek(l, headgate.InstantOf(time.Now().Add(2*headgate.MaxPeriod)), "key", 1); !later.Allowed {
		j.failf("%s: two periods later: got %s want allowed", describe(l), show(later))
	}
}

func closedAnswers(j *judge, a headgate.Algorithm) {
	l := j.limiter(a, "5/1m")
	rule := headgate.Rule{Scope: j.name(), Limit: headgate.MustParseLimit("1/1s"), Algorithm: a}
	b, err := j.store.Bind(rule)
	j.mustf(err, "bind")
	j.mustAllow(l, start, "key", 1)
	j.mustf(j.store.Close(), "close")
	answers := map[string]func() error{
		"take":   func() error { _, err := l.AllowAt(background, start.Time(), "key", 1); return err },
		"peek":   func() error { _, err := l.PeekAt(background, start.Time(), "key", 1); return err },
		"refund": func() error { _, err := l.RefundAt(background, start.Time(), "key", 1); return err },
		"reset":  func() error { _, err := l.ResetAt(background, start.Time(), "key"); return err },
		"several": func() error {
			_, err := headgate.AllowAllAt(background, start.Time(), headgate.Check{Limiter: l, Key: "key", Cost: 1})
			return err
		},
		"bind": func() error { _, err := j.store.Bind(rule); return err },
	}
	if a.CanReserve() {
		answers["reserve"] = func() error { _, _, err := b.Reserve(background, start, "key", 1, 0); return err }
		answers["cancel"] = func() error { _, err := b.Cancel(background, start, "key", 1, headgate.ReservationToken{}); return err }
	}
	for what, answer := range answers {
		if err := answer(); !errors.Is(err, headgate.ErrClosed) {
			j.failf("%s after Close: got error %v want ErrClosed", what, err)
		}
	}
	if err := j.store.Close(); err != nil && !errors.Is(err, headgate.ErrClosed) {
		j.failf("second Close: got error %v want nil or ErrClosed", err)
	}
}

func closedUnderLoad(j *judge) {
	l := j.limiter(j.options.algorithms()[0], "1000000/1s")
	j.together(func(g int) error {
		for i := range 200 {
			if g == 0 && i == 100 {
				return j.store.Close()
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
