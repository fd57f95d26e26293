package storetest

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

func (b *refBound) Reserve(ctx context.Context, now headgate.Instant, key string, cost int64, most time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	booker, ok := b.step.(algo.Reserver)
	if !ok && b.store.has(booksAnything) {
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
	if b.store.has(booksApart) {
		b.store.pause()
	}
	if b.store.has(ignoresLongest) {
		most = headgate.MaxFillTime
	}
	s, delay, booked := booker.Reserve(c.state, t, cost, most.Microseconds())
	d := b.answer(cell{state: s}, t, cost, 0, booked)
	d.Delay = 0
	if booked {
		b.save(key, cell{state: s}, t)
		d.Delay = micros.Duration(delay)
	} else if !d.Never && d.RetryAfter == 0 {
		d.RetryAfter = micros.Duration(delay) - most
	}
	if b.store.has(promisesEarly) && d.Delay > 0 {
		d.Delay -= time.Microsecond
	}
	return d, headgate.ReservationToken{s.A, s.B, s.C}, nil
}

func (b *refBound) Cancel(ctx context.Context, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken) (headgate.Decision, error) {
	booker, ok := b.step.(algo.Reserver)
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
	case cancelsNothing:
	case cancelsInFull:
		c.state = b.step.Refund(c.state, t, cost)
	case cancelForgets:
		c = cell{}
	default:
		c.state = booker.Cancel(c.state, algo.State{A: mark[0], B: mark[1], C: mark[2]}, t, cost)
	}
	b.save(key, c, t)
	return b.answer(c, t, 0, 0, true), nil
}

func (b *refBound) Spacing(cost int64) time.Duration {
	if b.store.has(spacesTooFar) {
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
