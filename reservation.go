package headgate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Reservation is what [Limiter.Reserve] booked. Its methods may be called concurrently.
type Reservation struct {
	limiter  *Limiter
	decision Decision
	mark     Mark
	key      string
	cost     int64
	spent    atomic.Bool // cancelled already, or nothing was booked
}

// Reserve books cost units of key, also such as are still to come, if they come within maxDelay. Act after
// [Reservation.Delay], or give it back with [Reservation.Cancel]. Only bucket algorithms can promise what is to come: the
// others, and policies with several limits, answer [ErrUnsupported].
func (l *Limiter) Reserve(ctx context.Context, key string, cost int64, maxDelay time.Duration) (*Reservation, error) {
	return l.ReserveAt(ctx, StoreClock, key, cost, maxDelay)
}

// ReserveAt is [Limiter.Reserve] at the instant now.
func (l *Limiter) ReserveAt(ctx context.Context, now Instant, key string, cost int64, maxDelay time.Duration) (*Reservation, error) {
	r, err := l.reserve(ctx, now, key, cost, maxDelay)
	if l.observer != nil {
		e := Event{Policy: l.policy.Name, Verb: "reserve", Cost: cost, Err: err}
		if err == nil {
			e.Decision = r.decision
		}
		l.observer.Observe(e)
	}
	return r, err
}

func (l *Limiter) reserve(ctx context.Context, now Instant, key string, cost int64, maxDelay time.Duration) (*Reservation, error) {
	if err := checkRequest(now, cost); err != nil {
		return nil, err
	}
	if l.bound == nil {
		return nil, fmt.Errorf("%w: a policy with several limits cannot book ahead; make one limiter for each", ErrUnsupported)
	}
	d, mark, err := l.bound.Reserve(ctx, now, key, cost, nonNegative(maxDelay))
	if err != nil {
		return nil, err
	}
	r := &Reservation{limiter: l, decision: d, mark: mark, key: key, cost: cost}
	r.spent.Store(!d.Allowed)
	return r, nil
}

// OK reports whether the units were booked.
func (r *Reservation) OK() bool { return r.decision.Allowed }

// Delay is how long to wait, from the moment of booking, before acting; 0 if nothing was booked.
func (r *Reservation) Delay() time.Duration { return r.decision.Delay }

// Decision is the whole answer: for a refusal, when it would be admitted at once and whether it ever can be.
func (r *Reservation) Decision() Decision { return r.decision }

// Cancel gives the booked units back, if nobody has booked behind them since, whose instants were promised. What is
// due already stays spent. Only the first call does anything.
func (r *Reservation) Cancel(ctx context.Context) error { return r.CancelAt(ctx, StoreClock) }

// CancelAt is [Reservation.Cancel] at the instant now.
func (r *Reservation) CancelAt(ctx context.Context, now Instant) error {
	if err := checkRequest(now, r.cost); err != nil {
		return err
	}
	if r.spent.Swap(true) {
		return nil
	}
	d, err := r.limiter.bound.Cancel(ctx, now, r.key, r.cost, r.mark)
	if o := r.limiter.observer; o != nil {
		o.Observe(Event{Policy: r.limiter.policy.Name, Verb: "cancel", Cost: r.cost, Decision: d, Err: err})
	}
	return err
}
