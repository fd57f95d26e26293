package httplimit

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/key"
)

// charge is a [Charge] made ready.
type charge struct {
	admission.Charge
	key    *key.Key[asker]
	cost   func(*http.Request) int64
	when   func(*http.Request) bool
	settle func(Outcome) int64
}

// fields returns the limits as header fields list them.
func (c *charge) fields() []httpfields.Limit {
	limits := make([]httpfields.Limit, len(c.Limits))
	for i, l := range c.Limits {
		limits[i] = httpfields.Limit{Name: l.Name, Limit: l.Rule.Limit, Algorithm: l.Rule.Algorithm, AtOnce: l.Bound.Limit()}
	}
	return limits
}

// bindAll makes charges ready, and refuses those that contradict each other.
func bindAll(store headgate.Store, charges []Charge) ([]charge, error) {
	if len(charges) == 0 {
		return nil, fmt.Errorf("%w: no charges; one at least, such as Charge{Policy: headgate.MustPolicy(\"100/1m\")}", ErrInvalidOptions)
	}
	bound, limits, binder := make([]charge, len(charges)), 0, admission.Binder{Store: store}
	for i := range charges {
		c, err := bindOne(&binder, &charges[i])
		if err != nil {
			return nil, fmt.Errorf("httplimit: charge %d: %w", i+1, err)
		}
		if limits += len(c.Limits); limits > headgate.MaxLimits {
			return nil, fmt.Errorf("%w: more than %d limits in all charges together", ErrInvalidOptions, headgate.MaxLimits)
		}
		if j := slices.IndexFunc(bound[:i], c.mixes); j >= 0 {
			return nil, fmt.Errorf("%w: the policies of charges %d and %d are the same and their keys are not, so the keys of one could"+
				" spend the budgets of the other; give each policy a name of its own", ErrInvalidOptions, j+1, i+1)
		}
		bound[i] = c
	}
	return bound, nil
}

// mixes reports whether texts that mean different things would name the same state.
func (c *charge) mixes(other charge) bool { return c.Shares(&other.Charge) && !c.key.Equal(other.key) }

// bindOne makes one charge ready.
func bindOne(binder *admission.Binder, c *Charge) (charge, error) {
	ready := charge{cost: c.Cost, when: c.When, settle: c.Settle}
	var err error
	if ready.key, err = c.Key.ready(); err != nil {
		return charge{}, fmt.Errorf("%w: key: %w", ErrInvalidOptions, err)
	}
	ready.Charge, err = binder.Bind(c.Policy, ready.key.Sort())
	return ready, err
}
