package fallback

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate"
)

// bound is a rule that was bound to the inner store and, in the mode local, also to the
// local store.
type bound struct {
	store *Store
	inner headgate.Bound
	local headgate.Bound // bound to this instance's share of the limit; nil unless the mode is local
	mode  headgate.OnStoreError
}

// Apply executes the operation verb on key; see [headgate.Bound].
func (b *bound) Apply(
	ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	c, v := b.store.enter(ctx, storeCall{bound: b.inner, key: key})
	if v.err != nil {
		return b.applyFailureMode(ctx, v, now, key, verb, cost)
	}
	defer c.end()
	d, err := b.inner.Apply(c.ctx, now, key, verb, cost)
	if v = c.judge(err); v.err != nil {
		return b.applyFailureMode(ctx, v, now, key, verb, cost)
	}
	return d, nil
}

// applyFailureMode decides by the failure mode of the rule, after the inner store
// failed with v.
func (b *bound) applyFailureMode(
	ctx context.Context, v verdict, now headgate.Instant, key string, verb headgate.Verb, cost int64,
) (headgate.Decision, error) {
	switch {
	case v.reason == headgate.ReasonNone || b.mode.Closed():
		return headgate.Decision{}, v.err
	case b.local == nil:
		return b.allow(v), nil
	}
	d, err := b.local.Apply(ctx, now, key, verb, cost)
	return degraded(d, err, v)
}

// allow returns the decision of the failure mode open.
func (b *bound) allow(v verdict) headgate.Decision {
	most := b.inner.Limit()
	return headgate.Decision{Allowed: true, Limit: most, Remaining: most, Degraded: v.reason}
}

// degraded adds the reason of v to a decision of the local store.
func degraded(d headgate.Decision, err error, v verdict) (headgate.Decision, error) {
	if err != nil {
		return headgate.Decision{}, localError(err, v)
	}
	d.Degraded = v.reason
	return d, nil
}

// localError returns the error for a request that neither the inner store nor the local
// store could decide.
func localError(err error, v verdict) error {
	return fmt.Errorf("fallback: decide locally: %w (%w)", err, v.err)
}

// The first number of a reservation token from the inner store is never negative. A
// token from the local store has its first number complemented, so that it is negative.
// openMark is the first number of a token in the failure mode open.
const openMark = math.MinInt64

// Reserve makes a reservation in the inner store or, if that store fails, by the
// failure mode; see [headgate.Bound].
func (b *bound) Reserve(
	ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	c, v := b.store.enter(ctx, storeCall{bound: b.inner, key: key})
	if v.err != nil {
		return b.reserveFailureMode(ctx, v, now, key, cost, maxDelay)
	}
	defer c.end()
	d, token, err := b.inner.Reserve(c.ctx, now, key, cost, maxDelay)
	if v = c.judge(err); v.err != nil {
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
		return b.inner.Reserve(ctx, now, key, cost, maxDelay) // returns ErrUnsupported and does no I/O
	case b.local == nil:
		return b.allow(v), headgate.ReservationToken{openMark}, nil
	}
	d, token, err := b.local.Reserve(ctx, now, key, cost, maxDelay)
	token[0] = ^token[0]
	d, err = degraded(d, err, v)
	return d, token, err
}

// Cancel refunds the units in the store that made the reservation; see
// [headgate.Bound]. If the inner store made it and is unavailable, the units stay
// spent.
func (b *bound) Cancel(
	ctx context.Context, now headgate.Instant, key string, cost int64, token headgate.ReservationToken,
) (headgate.Decision, error) {
	if token[0] < 0 && b.CanReserve() {
		if err := b.cancelLocal(ctx, now, key, cost, token); err != nil {
			return headgate.Decision{}, err
		}
		return b.Apply(ctx, now, key, headgate.Peek, 0)
	}
	c, v := b.store.enter(ctx, storeCall{bound: b.inner, key: key})
	if v.err != nil {
		return b.cancelFailureMode(ctx, v, now, key, cost, token)
	}
	defer c.end()
	d, err := b.inner.Cancel(c.ctx, now, key, cost, token)
	if v = c.judge(err); v.err != nil {
		return b.cancelFailureMode(ctx, v, now, key, cost, token)
	}
	return d, nil
}

// cancelLocal cancels a reservation that was made by the failure mode.
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

// Spacing returns the spacing of the inner rule. The spacing of the local rule is at
// least as long.
func (b *bound) Spacing(cost int64) time.Duration { return b.inner.Spacing(cost) }

// CanReserve reports whether the inner store and the algorithm support reservations.
func (b *bound) CanReserve() bool { return b.inner.CanReserve() }

// Node returns the node of the inner store; see [headgate.NodeOf].
func (b *bound) Node(key string) string { return headgate.NodeOf(b.inner, key) }

// Limit returns the whole limit of the rule, not this instance's share.
func (b *bound) Limit() int64 { return b.inner.Limit() }
