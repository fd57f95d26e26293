package headgate

import (
	"context"
	"fmt"
	"time"
)

// Limiter applies one policy on one store. [New] creates it. It may be used
// concurrently, and Allow locks nothing in the limiter. A method makes one operation of
// the store; refunds and resets make one for each limit, and [Limiter.WaitN] may make
// several. In memory an operation does not block and does not allocate, except under a
// policy with several limits. Over a network it is one round trip, which is canceled
// with the context.
//
// Allow, Peek, Refund and Wait cost one unit. The methods whose names end in N have a
// parameter for the cost, and so have Hold, Debit, TakeUpTo and Reserve. They use the
// time of the store's clock. Methods whose names end in At use a time from the caller,
// for tests and replays: times from 1970 to 2155 are rounded down to whole microseconds,
// and other times return [ErrInvalidInstant].
type Limiter struct {
	policy    Policy
	store     Store
	bounds    []Bound
	bound     Bound     // the element of bounds if there is exactly one, otherwise nil
	fastBound Bound     // fast path of Allow: bound, or nil if there is an observer or onlyHolds is set
	holdBound HoldBound // bound, or nil if it is not a HoldBound
	onlyHolds bool      // whether only a hold can take units of a limit
	observer  Observer
	queues    waitQueues
	variants  *variants
}

// Options are the settings of a limiter. A field with the zero value has the default
// given in its comment; nil options select all defaults.
type Options struct {
	// Observer receives an event for every decision; nil disables events.
	Observer Observer
}

// New returns a limiter that applies policy to the keys in store. It returns an error
// if the policy is invalid, the algorithm is unknown, or the store does not support the
// algorithm. It does no I/O. opts may be nil.
func New(store Store, policy Policy, opts *Options) (*Limiter, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: store is nil; use memstore.New(nil) for a store in memory", ErrInvalidPolicy)
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	policy.Limits = append([]Limit(nil), policy.Limits...)
	l := &Limiter{policy: policy, store: store, variants: newVariants()}
	if opts != nil {
		l.observer = opts.Observer
	}
	for _, rule := range policy.rules() {
		b, err := bindRule(store, rule)
		if err != nil {
			return nil, err
		}
		l.bounds = append(l.bounds, b)
		l.onlyHolds = l.onlyHolds || rule.Algorithm.OnlyHolds()
	}
	if len(l.bounds) == 1 {
		l.bound = l.bounds[0]
		l.holdBound, _ = l.bound.(HoldBound)
	}
	if l.observer == nil && !l.onlyHolds {
		l.fastBound = l.bound
	}
	return l, nil
}

// Policy returns the policy of this limiter. The caller must not modify the slice
// Limits.
func (l *Limiter) Policy() Policy { return l.policy }

// Allow spends one unit of key if one is available, and otherwise denies the request.
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	if l.fastBound != nil {
		return l.fastBound.Apply(ctx, StoreClock, key, Take, 1)
	}
	return l.apply(ctx, StoreClock, key, Take, 1)
}

// AllowN spends cost units of key if all of them are available; otherwise it spends
// nothing and denies the request. Cost 0 is always allowed and spends nothing.
func (l *Limiter) AllowN(ctx context.Context, key string, cost int64) (Decision, error) {
	return l.apply(ctx, StoreClock, key, Take, cost)
}

// AllowAt is like [Limiter.AllowN] at the time now.
func (l *Limiter) AllowAt(ctx context.Context, now time.Time, key string, cost int64) (Decision, error) {
	return l.apply(ctx, InstantOf(now), key, Take, cost)
}

// Peek reports what [Limiter.Allow] would decide, and spends nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.apply(ctx, StoreClock, key, Peek, 1)
}

// PeekN reports what [Limiter.AllowN] would decide for cost, and spends nothing.
func (l *Limiter) PeekN(ctx context.Context, key string, cost int64) (Decision, error) {
	return l.apply(ctx, StoreClock, key, Peek, cost)
}

// PeekAt is like [Limiter.PeekN] at the time now.
func (l *Limiter) PeekAt(ctx context.Context, now time.Time, key string, cost int64) (Decision, error) {
	return l.apply(ctx, InstantOf(now), key, Peek, cost)
}

// Refund refunds one unit to key; see [Limiter.RefundN].
func (l *Limiter) Refund(ctx context.Context, key string) (Decision, error) {
	return l.apply(ctx, StoreClock, key, Refund, 1)
}

// RefundN refunds cost units to key, but not more than were spent, so that key never
// has more units than the limit. With several limits, the limits are refunded one after
// another, not atomically. The decision is that of a peek with cost 0 after the refund.
func (l *Limiter) RefundN(ctx context.Context, key string, cost int64) (Decision, error) {
	return l.apply(ctx, StoreClock, key, Refund, cost)
}

// RefundAt is like [Limiter.RefundN] at the time now.
func (l *Limiter) RefundAt(ctx context.Context, now time.Time, key string, cost int64) (Decision, error) {
	return l.apply(ctx, InstantOf(now), key, Refund, cost)
}

// Reset makes key unused, as if no units had been spent: buckets are full and windows
// are empty. The decision is that of a peek with cost 0 after the reset.
func (l *Limiter) Reset(ctx context.Context, key string) (Decision, error) {
	return l.apply(ctx, StoreClock, key, Reset, 0)
}

// ResetAt is like [Limiter.Reset] at the time now.
func (l *Limiter) ResetAt(ctx context.Context, now time.Time, key string) (Decision, error) {
	return l.apply(ctx, InstantOf(now), key, Reset, 0)
}

func (l *Limiter) apply(ctx context.Context, now Instant, key string, verb Verb, cost int64) (d Decision, err error) {
	if err = checkRequest(now, cost); err == nil && (verb == Take || verb == Refund) {
		err = l.checkNoHold(verb.String())
	}
	if err == nil {
		d, err = l.decide(ctx, now, key, verb, cost)
	}
	if l.observer != nil {
		observe(ctx, l.observer, Event{Policy: l.policy.Name, Verb: verb.String(), Cost: cost, Decision: d, Err: err})
	}
	return d, err
}

// decide is like apply, but does not check the arguments and does not call the
// observer.
func (l *Limiter) decide(ctx context.Context, now Instant, key string, verb Verb, cost int64) (Decision, error) {
	if l.bound != nil {
		return l.bound.Apply(ctx, now, key, verb, cost)
	}
	return l.decideEach(ctx, now, key, verb, cost, make([]Decision, len(l.bounds)))
}

// decideEach is like decide, and also writes the decision of each limit into decisions.
// With several limits, a take spends units of all limits or of none, and a refund
// changes the limits one after another.
func (l *Limiter) decideEach(
	ctx context.Context, now Instant, key string, verb Verb, cost int64, decisions []Decision,
) (d Decision, err error) {
	if l.bound != nil {
		decisions[0], err = l.bound.Apply(ctx, now, key, verb, cost)
		return decisions[0], err
	}
	if verb == Take || verb == Peek {
		ops := make([]Op, len(l.bounds))
		for i, b := range l.bounds {
			ops[i] = Op{Bound: b, Key: key, Cost: cost}
		}
		if err := l.store.ApplyAll(ctx, now, ops, verb == Peek, decisions); err != nil {
			return Decision{}, err
		}
		return combine(decisions), nil
	}
	for i, b := range l.bounds {
		d, err := b.Apply(ctx, now, key, verb, cost)
		if err != nil {
			return Decision{}, err
		}
		decisions[i] = d
	}
	return combine(decisions), nil
}

// OnlyHolds reports whether the policy has a limit such as “16 concurrent”. Then only
// [Limiter.Hold] and [HoldAll] take units; methods such as Allow, Wait, Reserve, Refund,
// Debit and TakeUpTo return [ErrHoldRequired]. Peek and Reset work.
func (l *Limiter) OnlyHolds() bool { return l.onlyHolds }

// checkNoHold returns [ErrHoldRequired] if only a hold can take units. verb is the name
// of the operation in the error.
func (l *Limiter) checkNoHold(verb string) error {
	if !l.onlyHolds {
		return nil
	}
	return fmt.Errorf("%w: %s: policy %q limits concurrent work; call Hold or HoldAll, and Commit or Cancel when the work ends", ErrHoldRequired, verb, clip(l.policy.nameOrLimits()))
}

func checkRequest(now Instant, cost int64) error {
	if cost < 0 {
		return fmt.Errorf("%w: cost is %d; must be 0 or more (0 peeks)", ErrInvalidCost, cost)
	}
	if !now.Valid() {
		return fmt.Errorf("%w: instant is %d µs; must be 0 (1970) to %d (2155)", ErrInvalidInstant, int64(now), int64(MaxInstant))
	}
	return nil
}

// nonNegative returns d, or 0 if d is negative.
func nonNegative(d time.Duration) time.Duration { return max(d, 0) }
