package memcachedstore

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// bound is a rule that is ready for use. It has a step, or a log for an algorithm whose state is a list.
type bound struct {
	store    *Store
	scope    scope
	step     algo.Stepper
	booker   algo.Reserver // nil if the algorithm cannot book ahead
	log      algo.LogStepper
	limit    int64
	deniedBy []string
}

// Apply does verb with cost; see [headgate.Bound].
func (b *bound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb(v)
	}
	q, err := b.do(ctx, now, key, algo.Request{Verb: algo.Verb(v), N: cost})
	return q.decision, err
}

// Reserve takes cost even when it is still to come; see [headgate.Bound].
func (b *bound) Reserve(
	ctx context.Context, now headgate.Instant, key string, cost int64, maxDelay time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	if err := b.booking("reserve"); err != nil {
		return headgate.Decision{}, headgate.ReservationToken{}, err
	}
	most := min(maxDelay, headgate.MaxFillTime).Microseconds()
	q, err := b.do(ctx, now, key, algo.Request{Verb: algo.Reserve, N: cost, MaxDelay: most})
	return q.decision, q.mark, err
}

// Cancel gives back what a Reserve took; see [headgate.Bound].
func (b *bound) Cancel(ctx context.Context, now headgate.Instant, key string, cost int64, mark headgate.ReservationToken) (headgate.Decision, error) {
	if err := b.booking("cancel"); err != nil {
		return headgate.Decision{}, err
	}
	after := algo.State{A: mark[0], B: mark[1], C: mark[2]}
	q, err := b.do(ctx, now, key, algo.Request{Verb: algo.Cancel, N: cost, Mark: after})
	return q.decision, err
}

func (b *bound) booking(verb string) error {
	if b.store.isClosed() {
		return headgate.ErrClosed
	}
	if b.booker == nil {
		return errNoBooking(verb)
	}
	return nil
}

// do has one request on one key done. On an error the answer is empty: whoever gave up waiting must not look at a request that a
// round may still be at.
func (b *bound) do(ctx context.Context, now headgate.Instant, key string, request algo.Request) (*single, error) {
	q := &single{bound: b, request: request}
	j := &job{now: now, peek: request.Verb == algo.Peek, single: q, done: make(chan struct{})}
	if err := b.store.do(ctx, j, []digest{b.scope.digest(key)}); err != nil {
		return &single{}, err
	}
	return q, nil
}

// Spacing is a lower bound of the time that cost more units need.
func (b *bound) Spacing(cost int64) time.Duration {
	if b.log != nil {
		return micros.Duration(b.log.Spacing(cost))
	}
	return micros.Duration(b.step.Spacing(cost))
}

// Books reports whether the algorithm can book ahead.
func (b *bound) CanReserve() bool { return b.booker != nil }

// Limit is the most that can be spent at once, in units.
func (b *bound) Limit() int64 { return b.limit }

func (b *bound) named(d headgate.Decision) headgate.Decision {
	if !d.Allowed {
		d.DeniedBy = b.deniedBy
	}
	return d
}
