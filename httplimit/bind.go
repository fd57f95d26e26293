package httplimit

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/key"
)

// charge is a [Charge] that was bound to the store.
type charge struct {
	*admission.Charge
	key    *key.Key[keyRequest]
	cost   func(*http.Request) int64
	when   func(*http.Request) bool
	adjust func(Response) int64

	limits   func(*http.Request) []headgate.Limit // nil if variants is nil
	variants *admission.Variants
}

// bindAll binds charges to the store. It returns an error for charges that contradict
// each other.
func bindAll(store headgate.Store, charges []Charge) ([]charge, []admission.Charge, error) {
	if len(charges) == 0 {
		return nil, nil, fmt.Errorf("%w: no charges; pass at least one, such as Charge{Policy: headgate.MustPolicy(\"100/1m\")}",
			ErrInvalidOptions)
	}
	keyed, ready := make([]admission.Keyed[keyRequest], len(charges)), make([]charge, len(charges))
	for i, c := range charges {
		k, err := c.Key.compile()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: invalid key of charge %d: %w", ErrInvalidOptions, i+1, err)
		}
		keyed[i], ready[i] = admission.Keyed[keyRequest]{Policy: c.Policy, Key: k}, charge{key: k, cost: c.Cost, when: c.When, adjust: c.AdjustCost, limits: c.Limits}
	}
	bound, err := admission.BindAll(store, keyed, ErrInvalidOptions)
	if err != nil {
		return nil, nil, err
	}
	for i := range bound {
		ready[i].Charge = &bound[i]
		if ready[i].limits == nil {
			continue
		}
		if ready[i].variants, err = admission.NewVariants(store, charges[i].Policy, ready[i].key.Kind(), &bound[i], ErrInvalidOptions); err != nil {
			return nil, nil, err
		}
	}
	return ready, bound, nil
}
