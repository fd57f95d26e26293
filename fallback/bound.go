package fallback

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/turn"
)

// bound is a rule made ready by the inner store and, if it says local, its share by the local one.
type bound struct {
	store *Store
	inner headgate.Bound
	local headgate.Bound // nil unless mode is local
	mode  headgate.OnStoreError
}

// Apply does verb with cost; see [headgate.Bound].
func (b *bound) Apply(
	ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	if verb == headgate.Refund && turn.SourceOf(ctx) == turn.FallbackSource {
		if err := b.refundHere(ctx, now, key, cost); err != nil {
			return headgate.Decision{}, err
		}
		verb, cost = headgate.Peek, 0
	}
	c, v := b.store.enter(ctx)
	if v.err != nil {
		return b.insteadOfApply(ctx, v, now, key, verb, cost)
	}
	defer c.end()
	d, err := b.inner.Apply(c.ctx, now, key, verb, cost)
	if v = c.judge(err, question{bound: b.inner, key: key}); v.err != nil {
		return b.insteadOfApply(ctx, v, now, key, verb, cost)
	}
	return d, nil
}

func (b *bound) insteadOfApply(
	ctx context.Context, v verdict, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	switch {
	case v.trouble == headgate.ReasonNone || b.mode.Closed():
		return headgate.Decision{}, v.err
	case b.local == nil:
		return b.admitted(v), nil
	}
	if verb == headgate.Refund && turn.SourceOf(ctx) == turn.StoreSource {
		verb, cost = headgate.Peek, 0
	}
	d, err := b.local.Apply(ctx, now, key, verb, cost)
	return degraded(d, err, v)
}

// admitted is the answer of a rule that says open.
func (b *bound) admitted(v verdict) headgate.Decision {
	most := b.inner.Limit()
	return headgate.Decision{Allowed: true, Limit: most, Remaining: most, Degraded: v.trouble}
}

// degraded is a local decision, with why it is that.
func degraded(d headgate.Decision, err error, v verdict) (headgate.Decision, error) {
	if err != nil {
		return headgate.Decision{}, localError(err, v)
	}
	d.Degraded = v.trouble
	return d, nil
}

// localError is the answer when the local store could not decide either.
func localError(err error, v verdict) error {
	return fmt.Errorf("fallback: decide locally: %w (%w)", err, v.err)
}

// Marks of reservations that the inner store did not make begin with a number below zero, which no state of this program does.
// A local mark's first number is turned into its complement.
const openMark = math.MinInt64

// Reserve books where the decision is made; see [headgate.Bound].
func (b *bound) Reserve(
	ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	c, v := b.store.enter(ctx)
	if v.err != nil {
		return b.insteadOfReserve(ctx, v, now, key, cost, maxDelay)
	}
	defer c.end()
	d, mark, err := b.inner.Reserve(c.ctx, now, key, cost, maxDelay)
	if v = c.judge(err, question{bound: b.inner, key: key}); v.err != nil {
		return b.insteadOfReserve(ctx, v, now, key, cost, maxDelay)
	}
	return d, mark, nil
}

func (b *bound) insteadOfReserve(
	ctx context.Context, v verdict, now headgate.Instant, key string, cost int64, maxDelay time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	switch {
	case v.trouble == headgate.ReasonNone || b.mode.Closed():
		return headgate.Decision{}, headgate.ReservationToken{}, v.err
	case !b.CanReserve():
		return b.inner.Reserve(ctx, now, key, cost, maxDelay) // it answers that it cannot, and asks nobody
	case b.local == nil:
		return b.admitted(v), headgate.ReservationToken{openMark}, nil
	}
	d, mark, err := b.local.Reserve(ctx, now, key, cost, maxDelay)
	mark[0] = ^mark[0]
	d, err = degraded(d, err, v)
	return d, mark, err
}

// Cancel gives back where the reservation was made; see [headgate.Bound]. What the store booked stays spent while it is away.
func (b *bound) Cancel(
	ctx context.Context, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken,
) (headgate.Decision, error) {
	if mark[0] < 0 && b.CanReserve() {
		if err := b.cancelHere(ctx, now, key, cost, mark); err != nil {
			return headgate.Decision{}, err
		}
		return b.Apply(ctx, now, key, headgate.Peek, 0)
	}
	c, v := b.store.enter(ctx)
	if v.err != nil {
		return b.insteadOfCancel(ctx, v, now, key, cost, mark)
	}
	defer c.end()
	d, err := b.inner.Cancel(c.ctx, now, key, cost, mark)
	if v = c.judge(err, question{bound: b.inner, key: key}); v.err != nil {
		return b.insteadOfCancel(ctx, v, now, key, cost, mark)
	}
	return d, nil
}

// refundHere refunds units that were granted while the store was unavailable.
func (b *bound) refundHere(ctx context.Context, now headgate.Instant, key string, cost int64) error {
	if b.store.closed.Load() {
		return headgate.ErrClosed
	}
	if b.local == nil {
		return nil
	}
	if _, err := b.local.Apply(ctx, now, key, headgate.Refund, cost); err != nil {
		return fmt.Errorf("fallback: refund locally: %w", err)
	}
	return nil
}

// cancelHere gives back what was booked while the store was away.
func (b *bound) cancelHere(ctx context.Context, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken) error {
	if b.store.closed.Load() {
		return headgate.ErrClosed
	}
	if b.local == nil || mark[0] == openMark {
		return nil
	}
	mark[0] = ^mark[0]
	if _, err := b.local.Cancel(ctx, now, key, cost, mark); err != nil {
		return fmt.Errorf("fallback: cancel locally: %w", err)
	}
	return nil
}

func (b *bound) insteadOfCancel(
	ctx context.Context, v verdict, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken,
) (headgate.Decision, error) {
	if v.trouble != headgate.ReasonNone && !b.mode.Closed() && !b.CanReserve() {
		return b.inner.Cancel(ctx, now, key, cost, mark)
	}
	return b.insteadOfApply(ctx, v, now, key, headgate.Peek, 0)
}

// Spacing is that of the inner store's rule: a share takes no less.
func (b *bound) Spacing(cost int64) time.Duration { return b.inner.Spacing(cost) }

// Books reports whether Reserve and Cancel work.
func (b *bound) CanReserve() bool { return b.inner.CanReserve() }

// Limit is that of the rule, not of the share.
func (b *bound) Limit() int64 { return b.inner.Limit() }
