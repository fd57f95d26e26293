package fallback

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/turn"
)

// bound is a rule that the inner store and, for the mode local, the local store have
// bound.
type bound struct {
	store *Store
	inner headgate.Bound
	local headgate.Bound // bound to the share; nil unless the mode is local
	mode  headgate.OnStoreError
}

// Apply executes verb with cost; see [headgate.Bound].
func (b *bound) Apply(
	ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	if verb == headgate.Refund && turn.SourceOf(ctx) == turn.FallbackSource {
		if err := b.refundLocal(ctx, now, key, cost); err != nil {
			return headgate.Decision{}, err
		}
		verb, cost = headgate.Peek, 0
	}
	c, v := b.store.enter(ctx)
	if v.err != nil {
		return b.applyFailureMode(ctx, v, now, key, verb, cost)
	}
	defer c.end()
	d, err := b.inner.Apply(c.ctx, now, key, verb, cost)
	if v = c.judge(err, storeCall{bound: b.inner, key: key}); v.err != nil {
		return b.applyFailureMode(ctx, v, now, key, verb, cost)
	}
	return d, nil
}

// insteadOfApply applies the failure mode.
func (b *bound) applyFailureMode(
	ctx context.Context, v verdict, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	switch {
	case v.reason == headgate.ReasonNone || b.mode.Closed():
		return headgate.Decision{}, v.err
	case b.local == nil:
		return b.allow(v), nil
	}
	if verb == headgate.Refund && turn.SourceOf(ctx) == turn.StoreSource {
		verb, cost = headgate.Peek, 0
	}
	d, err := b.local.Apply(ctx, now, key, verb, cost)
	return degraded(d, err, v)
}

// admitted returns the decision of the failure mode open.
func (b *bound) allow(v verdict) headgate.Decision {
	most := b.inner.Limit()
	return headgate.Decision{Allowed: true, Limit: most, Remaining: most, Degraded: v.reason}
}

// degraded adds the reason to a local decision.
func degraded(d headgate.Decision, err error, v verdict) (headgate.Decision, error) {
	if err != nil {
		return headgate.Decision{}, localError(err, v)
	}
	d.Degraded = v.reason
	return d, nil
}

// localError returns the error if neither store could decide.
func localError(err error, v verdict) error {
	return fmt.Errorf("fallback: decide locally: %w (%w)", err, v.err)
}

// A reservation token that the inner store did not make begins with a negative number,
// which never occurs in a state. A local token has its first number complemented;
// openMark is the token of the failure mode open.
const openMark = math.MinInt64

// Reserve reserves in the store that decides; see [headgate.Bound].
func (b *bound) Reserve(
	ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	c, v := b.store.enter(ctx)
	if v.err != nil {
		return b.reserveFailureMode(ctx, v, now, key, cost, maxDelay)
	}
	defer c.end()
	d, token, err := b.inner.Reserve(c.ctx, now, key, cost, maxDelay)
	if v = c.judge(err, storeCall{bound: b.inner, key: key}); v.err != nil {
		return b.reserveFailureMode(ctx, v, now, key, cost, maxDelay)
	}
	return d, token, nil
}

func (b *bound) reserveFailureMode(
	ctx context.Context, v verdict, now headgate.Instant, key string, cost int64, maxDelay time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	switch {
	case v.reason == headgate.ReasonNone || b.mode.Closed():
		return headgate.Decision{}, headgate.ReservationToken{}, v.err
	case !b.CanReserve():
		return b.inner.Reserve(ctx, now, key, cost, maxDelay) // it returns ErrUnsupported without I/O
	case b.local == nil:
		return b.allow(v), headgate.ReservationToken{openMark}, nil
	}
	d, token, err := b.local.Reserve(ctx, now, key, cost, maxDelay)
	token[0] = ^token[0]
	d, err = degraded(d, err, v)
	return d, token, err
}

// Cancel refunds in the store that reserved; see [headgate.Bound]. Units that the inner
// store reserved stay spent while it is unavailable.
func (b *bound) Cancel(
	ctx context.Context, now headgate.Instant, key string, cost int64, token headgate.ReservationToken,
) (headgate.Decision, error) {
	if token[0] < 0 && b.CanReserve() {
		if err := b.cancelLocal(ctx, now, key, cost, token); err != nil {
			return headgate.Decision{}, err
		}
		return b.Apply(ctx, now, key, headgate.Peek, 0)
	}
	c, v := b.store.enter(ctx)
	if v.err != nil {
		return b.cancelFailureMode(ctx, v, now, key, cost, token)
	}
	defer c.end()
	d, err := b.inner.Cancel(c.ctx, now, key, cost, token)
	if v = c.judge(err, storeCall{bound: b.inner, key: key}); v.err != nil {
		return b.cancelFailureMode(ctx, v, now, key, cost, token)
	}
	return d, nil
}

// refundHere refunds units that were granted while the store was unavailable.
func (b *bound) refundLocal(ctx context.Context, now headgate.Instant, key string, cost int64) error {
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

// cancelHere cancels a reservation that was made while the store was unavailable.
func (b *bound) cancelLocal(ctx context.Context, now headgate.Instant, key string, cost int64, token headgate.ReservationToken) error {
	if b.store.closed.Load() {
		return headgate.ErrClosed
	}
	if b.local == nil || token[0] == openMark {
		return nil
	}
	token[0] = ^token[0]
	if _, err := b.local.Cancel(ctx, now, key, cost, token); err != nil {
		return fmt.Errorf("fallback: cancel locally: %w", err)
	}
	return nil
}

func (b *bound) cancelFailureMode(
	ctx context.Context, v verdict, now headgate.Instant, key string, cost int64, token headgate.ReservationToken,
) (headgate.Decision, error) {
	if v.reason != headgate.ReasonNone && !b.mode.Closed() && !b.CanReserve() {
		return b.inner.Cancel(ctx, now, key, cost, token)
	}
	return b.applyFailureMode(ctx, v, now, key, headgate.Peek, 0)
}

// Spacing returns the spacing of the inner rule. That of a share is not shorter.
func (b *bound) Spacing(cost int64) time.Duration { return b.inner.Spacing(cost) }

// CanReserve reports whether Reserve and Cancel work.
func (b *bound) CanReserve() bool { return b.inner.CanReserve() }

// Limit returns the limit of the rule, not of the share.
func (b *bound) Limit() int64 { return b.inner.Limit() }
