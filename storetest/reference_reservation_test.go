package storetest

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

func (b *refBound) Reserve(ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	reserver, ok := b.step.(algo.Reserver)
	if !ok && b.store.has(windowsReserve) {
		return headgate.Decision{Allowed: true}, headgate.ReservationToken{}, nil
	}
	if !ok {
		return headgate.Decision{}, headgate.ReservationToken{}, headgate.ErrUnsupported
	}
	t, err := b.store.begin(ctx, now)
	if err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	defer b.store.mu.Unlock()
	c := b.load(key, t)
	if b.store.has(reserveNotAtomic) {
		b.store.pause()
	}
	if b.store.has(ignoresMaxDelay) {
		maxDelay = headgate.MaxFillTime
	}
	s, delay, accepted := reserver.Reserve(c.state, t, cost, maxDelay.Microseconds())
	d := b.answer(cell{state: s}, t, cost, 0, accepted)
	d.Delay = 0
	if accepted {
		b.save(key, cell{state: s}, t)
		d.Delay = micros.Duration(delay)
	} else if !d.Never && d.RetryAfter == 0 {
		d.RetryAfter = micros.Duration(delay) - maxDelay
	}
	if b.store.has(delayTooShort) && d.Delay > 0 {
		d.Delay -= time.Microsecond
	}
	return d, headgate.ReservationToken{s.A, s.B, s.C}, nil
}

func (b *refBound) Cancel(ctx context.Context, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken) (headgate.Decision, error) {
	reserver, ok := b.step.(algo.Reserver)
	if !ok {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	t, err := b.store.begin(ctx, now)
	if err != nil {
		return headgate.Decision{}, err
	}
	defer b.store.mu.Unlock()
	c := b.load(key, t)
	switch b.store.fault {
	case cancelNothing:
	case cancelRefundsLater:
		c.state = b.step.Refund(c.state, t, cost)
	case cancelForgets:
		c = cell{}
	default:
		c.state = reserver.Cancel(c.state, algo.State{A: mark[0], B: mark[1], C: mark[2]}, t, cost)
	}
	b.save(key, c, t)
	return b.answer(c, t, 0, 0, true), nil
}

func (b *refBound) Spacing(cost int64) time.Duration {
	if b.store.has(spacingTooLong) {
		cost++
	}
	if b.logs != nil {
		return micros.Duration(b.logs.Spacing(cost))
	}
	return micros.Duration(b.step.Spacing(cost))
}

func (b *refBound) CanReserve() bool {
	_, ok := b.step.(algo.Reserver)
	return ok
}
