package headgate

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/internal/memo"
)

// maxVariants is the maximum number of limiters that WithLimits keeps for one policy.
const maxVariants = 1024

// variants are the limiters that WithLimits has returned for one policy.
type variants = memo.Lists[Limit, *Limiter]

func newVariants() *variants {
	return memo.NewLists[Limit, *Limiter](maxVariants, func(l Limit) uint64 { return uint64(l.Rate)*31 + uint64(l.Period) })
}

// WithLimits returns a limiter with the same store, policy name, algorithm and settings,
// and with other limits, such as the limits of a user's plan. Both limiters share the
// state of a key, as if the limits of the policy had been changed: what a key has spent
// under one of them is spent under the other. The policy must therefore have a name. The
// order of the limits matters: the first limit uses the state of the policy's first
// limit.
//
// WithLimits does no I/O and may be called for each request. It keeps the limiters of the
// last 1,024 different lists of at most four limits, and allocates nothing for them. It
// returns the errors of [New]. A limiter has its own queue for [Limiter.Wait], so callers
// that wait under different limits are not served in FIFO order.
func (l *Limiter) WithLimits(limits ...Limit) (*Limiter, error) {
	if slices.Equal(l.policy.Limits, limits) {
		return l, nil
	}
	if known, ok := l.variants.Get(limits); ok {
		return known, nil
	}
	made, err := l.variant(append([]Limit(nil), limits...))
	if err != nil {
		return nil, err
	}
	return l.variants.Put(made.policy.Limits, made), nil
}

// variant returns a limiter with other limits that keeps its variants with those of l.
func (l *Limiter) variant(limits []Limit) (*Limiter, error) {
	policy := l.policy
	if policy.Limits = limits; policy.Name == "" {
		return nil, fmt.Errorf("%w: a policy without a name is identified by its limits, so other limits would not share its state; set Name",
			ErrInvalidPolicy)
	}
	made, err := New(l.store, policy, &Options{Observer: l.observer})
	if err == nil {
		made.variants = l.variants
	}
	return made, err
}
