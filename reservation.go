package headgate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Reservation is the result of [Limiter.Reserve]. Its methods may be called concurrently.
type Reservation struct {
	limiter  *Limiter
	decision Decision
	token    ReservationToken
	key      string
	cost     int64
	done     atomic.Bool // true after a cancellation, or if nothing was reserved
}

// Reserve reserves cost units of key if all of them are available within maxDelay. The
// caller may proceed after [Reservation.Delay], or call [Reservation.Cancel] to refund
// the units. Only the bucket algorithms can reserve. Other algorithms, and policies
// with several limits, return [ErrUnsupported].
func (l *Limiter) Reserve(ctx context.Context, key string, cost int64, maxDelay time.Duration) (*Reservation, error) {
	return l.reserveObserved(ctx, StoreClock, key, cost, maxDelay)
}

// ReserveAt is like [Limiter.Reserve] at the time now.
func (l *Limiter) ReserveAt(
	ctx context.Context, now time.Time, key string, cost int64, maxDelay time.Duration,
) (*Reservation, error) {
	return l.reserveObserved(ctx, InstantOf(now), key, cost, maxDelay)
}

func (l *Limiter) reserveObserved(
	ctx context.Context, now Instant, key string, cost int64, maxDelay time.Duration,
) (*Reservation, error) {
	r, err := l.reserve(ctx, now, key, cost, maxDelay)
	if l.observer != nil {
		e := Event{Policy: l.policy.Name, Verb: "reserve", Cost: cost, Err: err}
		if err == nil {
			e.Decision = r.decision
		}
		observe(ctx, l.observer, e)
	}
	return r, err
}

func (l *Limiter) reserve(ctx context.Context, now Instant, key string, cost int64, maxDelay time.Duration) (*Reservation, error) {
	if err := checkRequest(now, cost); err != nil {
		return nil, err
	}
	if err := l.checkNoHold("reserve"); err != nil {
		return nil, err
	}
	if l.bound == nil {
		return nil, fmt.Errorf("%w: a policy with several limits cannot reserve; use one limiter for each limit", ErrUnsupported)
	}
	d, token, err := l.bound.Reserve(ctx, now, key, cost, nonNegative(maxDelay))
	if err != nil {
		return nil, err
	}
	r := &Reservation{limiter: l, decision: d, token: token, key: key, cost: cost}
	r.done.Store(!d.Allowed)
	return r, nil
}

// OK reports whether the units were reserved.
func (r *Reservation) OK() bool { return r.decision.Allowed }

// Delay returns how long the caller must wait before it proceeds, counted from the time
// of the reservation. It returns 0 if nothing was reserved.
func (r *Reservation) Delay() time.Duration { return r.decision.Delay }

// Decision returns the decision. If nothing was reserved, RetryAfter is the wait until
// the units can be spent immediately, and Never is true if they can never be spent.
func (r *Reservation) Decision() Decision { return r.decision }

// Cancel refunds the reserved units if they are not yet due and no later reservation of
// the same key exists. The delay of a later reservation has already been promised to
// its caller and cannot be shortened. Otherwise the units stay spent. Only the first
// call has an effect.
func (r *Reservation) Cancel(ctx context.Context) error { return r.cancel(ctx, StoreClock) }

// CancelAt is like [Reservation.Cancel] at the time now.
func (r *Reservation) CancelAt(ctx context.Context, now time.Time) error {
	return r.cancel(ctx, InstantOf(now))
}

func (r *Reservation) cancel(ctx context.Context, now Instant) error {
	if err := checkRequest(now, r.cost); err != nil {
		return err
	}
	if r.done.Swap(true) {
		return nil
	}
	d, err := r.limiter.bound.Cancel(ctx, now, r.key, r.cost, r.token)
	if o := r.limiter.observer; o != nil {
		observe(ctx, o, Event{Policy: r.limiter.policy.Name, Verb: "cancel", Cost: r.cost, Decision: d, Err: err})
	}
	return err
}
