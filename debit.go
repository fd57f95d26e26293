package headgate

import (
	"context"
	"time"
)

// Debit spends n units of key, whether or not they are available: for a cost that is
// already certain, or as a penalty. The key may then be overspent: Remaining is 0, and
// a denial has a correspondingly longer RetryAfter. The decision is that of a peek with
// cost 0 after it. It returns [ErrInvalidCost] if n is above [Algorithm.MaxDebit].
func (l *Limiter) Debit(ctx context.Context, key string, n int64) (Decision, error) {
	_, d, err := adjust(ctx, StoreClock, Debit, []Check{{l, key, n}})
	return d, err
}

// DebitAt is like [Limiter.Debit] at the time now.
func (l *Limiter) DebitAt(ctx context.Context, now time.Time, key string, n int64) (Decision, error) {
	_, d, err := adjust(ctx, InstantOf(now), Debit, []Check{{l, key, n}})
	return d, err
}

// DebitAll spends the cost of every check, whether or not it is available; see
// [Limiter.Debit]. It is one operation of the store and atomic for each key. On a Redis
// Cluster or memcached, some keys may be charged and others not after an error. DebitAll
// returns [ErrInvalidHold] if two checks have the same policy and key and different
// limits. The decision is that of [PeekAll] with costs 0 after it.
func DebitAll(ctx context.Context, checks ...Check) (Decision, error) {
	_, d, err := adjust(ctx, StoreClock, Debit, checks)
	return d, err
}

// DebitAllAt is like [DebitAll] at the time now.
func DebitAllAt(ctx context.Context, now time.Time, checks ...Check) (Decision, error) {
	_, d, err := adjust(ctx, InstantOf(now), Debit, checks)
	return d, err
}

// TakeUpTo spends n units of key or, if fewer remain, all that remain. It returns how
// many it spent, and the decision of a peek with cost 0 after it.
func (l *Limiter) TakeUpTo(ctx context.Context, key string, n int64) (granted int64, d Decision, err error) {
	return adjust(ctx, StoreClock, TakeUpTo, []Check{{l, key, n}})
}

// TakeUpToAt is like [Limiter.TakeUpTo] at the time now.
func (l *Limiter) TakeUpToAt(ctx context.Context, now time.Time, key string, n int64) (granted int64, d Decision, err error) {
	return adjust(ctx, InstantOf(now), TakeUpTo, []Check{{l, key, n}})
}

// TakeUpToAll spends the same number of units for each check: the least of their costs
// or, if fewer remain, as many as remain for every check. It returns this number, the
// errors of [DebitAll], and the decision of [PeekAll] with costs 0 after it. If two
// checks have the same policy and key, each of them spends it.
func TakeUpToAll(ctx context.Context, checks ...Check) (granted int64, d Decision, err error) {
	return adjust(ctx, StoreClock, TakeUpTo, checks)
}

// TakeUpToAllAt is like [TakeUpToAll] at the time now.
func TakeUpToAllAt(ctx context.Context, now time.Time, checks ...Check) (granted int64, d Decision, err error) {
	return adjust(ctx, InstantOf(now), TakeUpTo, checks)
}

// adjust executes [Debit] or [TakeUpTo] for all checks.
func adjust(ctx context.Context, now Instant, verb HoldVerb, checks []Check) (int64, Decision, error) {
	for i := range checks {
		if l := checks[i].Limiter; l != nil {
			if err := l.checkNoHold(verb.methodName()); err != nil {
				return 0, Decision{}, err
			}
		}
	}
	h := Hold{checks: checks}
	result, _, err := h.apply(ctx, now, verb, 0, nil)
	return result.Granted, result.Decision, err
}
