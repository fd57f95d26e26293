package headgate

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/internal/memo"
)

// Limits on the limiters that WithLimits keeps.
const (
	maxVariants      = 1024
	maxVariantLimits = 4
)

// variantKey has the limits of a limiter that [Limiter.WithLimits] returned.
type variantKey [maxVariantLimits]Limit

// variants are the limiters that WithLimits has returned for one policy.
type variants = memo.Map[variantKey, *Limiter]

// WithLimits returns a limiter with the same store, policy name, algorithm and settings,
// and with other limits: those of the plan of a user, for example. Both limiters share
// the state of a key, as if the limits of the policy had been changed: what a key has
// spent under one of them is spent under the other. So the policy must have a name, and
// the order of the limits matters: the first continues the state of the first.
//
// WithLimits does no I/O and may be called for each request. It keeps the limiters of the
// last 1,024 different lists of at most four limits, and allocates nothing for them. It
// returns the errors of [New]. A limiter has its own queue for [Limiter.Wait], so callers
// that wait under different limits are not served in FIFO order.
func (l *Limiter) WithLimits(limits ...Limit) (*Limiter, error) {
	if slices.Equal(l.policy.Limits, limits) {
		return l, nil
	}
	if len(limits) > maxVariantLimits {
		return l.variant(append([]Limit(nil), limits...))
	}
	var k variantKey
	copy(k[:], limits)
	if known, ok := l.variants.Get(k); ok {
		return known, nil
	}
	made, err := l.variant(slices.Clone(k[:len(limits)]))
	if err != nil {
		return nil, err
	}
	return l.variants.Put(k, made), nil
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
