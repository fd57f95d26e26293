package headgate

import (
	"context"
	"fmt"
	"time"
)

// Limiter decides by one policy over one store. It is made with [New], holds no lock of its own on the path of Allow, and may
// be used concurrently. Each verb is one operation of the store: over memory it does not block and does not allocate (a policy
// with several limits allocates); over a network it is one round trip and ends with its context.
//
// Every verb exists twice: under its short name at the store's own clock, and with At at an instant that the caller gives, for
// tests and replays.
type Limiter struct {
	policy   Policy
	store    Store
	bounds   []Bound
	bound    Bound // the only one, if there is only one
	short    Bound // bound, if nobody observes: the short path
	observer Observer
	waiters  waitingRoom
}

// Options are a limiter's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Observer hears of every decision; nil means nobody does.
	Observer Observer
}

// New makes a limiter for policy over store. It refuses what cannot work: an invalid policy, an unknown algorithm, an
// algorithm that the store cannot hold. It does no I/O. opts may be nil.
func New(store Store, policy Policy, opts *Options) (*Limiter, error) {
	if store == nil {
		return nil, fmt.Errorf("%w: no store was given; memstore.New(nil) makes the embedded one", ErrInvalidPolicy)
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	policy.Limits = append([]Limit(nil), policy.Limits...)
	l := &Limiter{policy: policy, store: store}
	if opts != nil {
		l.observer = opts.Observer
	}
	for _, rule := range policy.Rules() {
		b, err := store.Bind(rule)
		if err != nil {
			return nil, err
		}
		l.bounds = append(l.bounds, b)
	}
	if len(l.bounds) == 1 {
		l.bound = l.bounds[0]
	}
	if l.observer == nil {
		l.short = l.bound
	}
	return l, nil
}

// Policy is the policy this limiter decides by. Its Limits must not be changed.
func (l *Limiter) Policy() Policy { return l.policy }

// Allow asks for one unit of key now, and spends it if it is there.
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	if l.short != nil {
		return l.short.Apply(ctx, StoreClock, key, Take, 1)
	}
	return l.AllowAt(ctx, StoreClock, key, 1)
}

// AllowN asks for cost units of key now, all or none. Cost 0 is always allowed and spends nothing.
func (l *Limiter) AllowN(ctx context.Context, key string, cost int64) (Decision, error) {
	return l.AllowAt(ctx, StoreClock, key, cost)
}

// AllowAt is [Limiter.AllowN] at the instant now.
func (l *Limiter) AllowAt(ctx context.Context, now Instant, key string, cost int64) (Decision, error) {
	return l.apply(ctx, now, key, Take, cost)
}

// Peek says what [Limiter.AllowN] would answer for cost, and spends nothing.
func (l *Limiter) Peek(ctx context.Context, key string, cost int64) (Decision, error) {
	return l.PeekAt(ctx, StoreClock, key, cost)
}

// PeekAt is [Limiter.Peek] at the instant now.
func (l *Limiter) PeekAt(ctx context.Context, now Instant, key string, cost int64) (Decision, error) {
	return l.apply(ctx, now, key, Peek, cost)
}

// Refund gives cost units back to key: at most what was spent, never above the limit. The decision is that of a peek with cost
// 0 after it. With several limits each gets its units back, one after another.
func (l *Limiter) Refund(ctx context.Context, key string, cost int64) (Decision, error) {
	return l.RefundAt(ctx, StoreClock, key, cost)
}

// RefundAt is [Limiter.Refund] at the instant now.
func (l *Limiter) RefundAt(ctx context.Context, now Instant, key string, cost int64) (Decision, error) {
	return l.apply(ctx, now, key, Refund, cost)
}

// Reset makes key as if never used. The decision is that of a peek with cost 0 after it.
func (l *Limiter) Reset(ctx context.Context, key string) (Decision, error) {
	return l.ResetAt(ctx, StoreClock, key)
}

// ResetAt is [Limiter.Reset] at the instant now.
func (l *Limiter) ResetAt(ctx context.Context, now Instant, key string) (Decision, error) {
	return l.apply(ctx, now, key, Reset, 0)
}

func (l *Limiter) apply(ctx context.Context, now Instant, key string, verb Verb, cost int64) (d Decision, err error) {
	if err = checkRequest(now, cost); err == nil {
		d, err = l.decide(ctx, now, key, verb, cost)
	}
	if l.observer != nil {
		l.observer.Observe(Event{Policy: l.policy.Name, Verb: verb.String(), Cost: cost, Decision: d, Err: err})
	}
	return d, err
}

// decide is apply without checks and without the observer.
func (l *Limiter) decide(ctx context.Context, now Instant, key string, verb Verb, cost int64) (Decision, error) {
	if l.bound != nil {
		return l.bound.Apply(ctx, now, key, verb, cost)
	}
	return l.askEach(ctx, now, key, verb, cost, make([]Decision, len(l.bounds)))
}

// askEach is decide, and writes what each limit decided into decisions. With several limits a charge is all or nothing, and a refund
// is made limit by limit.
func (l *Limiter) askEach(
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
		return Combine(decisions), nil
	}
	for i, b := range l.bounds {
		d, err := b.Apply(ctx, now, key, verb, cost)
		if err != nil {
			return Decision{}, err
		}
		decisions[i] = d
	}
	return Combine(decisions), nil
}

func checkRequest(now Instant, cost int64) error {
	if cost < 0 {
		return fmt.Errorf("%w: %d; accepted are whole numbers from 0 (0 only asks)", ErrInvalidCost, cost)
	}
	if !now.Valid() {
		return fmt.Errorf("%w: %d µs; accepted are 0 (1970) to %d (2155)", ErrInvalidInstant, int64(now), int64(MaxInstant))
	}
	return nil
}

// nonNegative is d, or 0 for a wait that is already over.
func nonNegative(d time.Duration) time.Duration { return max(d, 0) }
