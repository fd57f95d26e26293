package admission

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/key"
	"github.com/headgate/headgate/internal/root"
)

// Limit is one limit of a policy that was bound to a store.
type Limit struct {
	Name  string // name in header fields and responses
	Rule  headgate.Rule
	Bound headgate.Bound
}

// Charge is a policy that was bound to a store. It is immutable.
type Charge struct {
	Policy string // name of the policy, for observers
	Limits []Limit
	Queues bool // true if the algorithm has a queue
	Slots  bool // true if only a hold can take units of a limit
}

// Binder binds all policies of one middleware or service to a store.
type Binder struct {
	Store   headgate.Store
	unnamed int // number of limits so far in policies without a name
}

// Bind binds a policy. It returns the same errors as [headgate.New]. kind is the kind
// of the key that is used with the policy. For each kind, a policy without a name has a
// separate state; otherwise keys of one kind could spend the budgets of another. kind
// is empty for addresses, so that a [headgate.Limiter] with addresses as keys shares
// the state.
func (b *Binder) Bind(policy headgate.Policy, kind string) (Charge, error) {
	if b.Store == nil {
		return Charge{}, fmt.Errorf("%w: no store was given; memstore.New(nil) makes the embedded one", headgate.ErrInvalidPolicy)
	}
	if err := policy.Validate(); err != nil {
		return Charge{}, err
	}
	c := Charge{Policy: policy.Name, Queues: policy.Algorithm.Queues()}
	for _, rule := range root.Rules(policy) {
		name := rule.Name
		if policy.Name == "" {
			name = b.defaultName()
		}
		if policy.Name == "" && kind != "" {
			rule.Scope += " by " + kind
		}
		bound, err := root.Bind(b.Store, rule)
		if err != nil {
			return Charge{}, err
		}
		c.Limits = append(c.Limits, Limit{name, rule, bound})
		c.Slots = c.Slots || rule.Algorithm.OnlyHolds()
	}
	return c, nil
}

// defaultName returns “default” for the first limit, then “default-2” and so on.
func (b *Binder) defaultName() string {
	if b.unnamed++; b.unnamed == 1 {
		return "default"
	}
	return "default-" + strconv.Itoa(b.unnamed)
}

// Keyed is a policy with the key that is used for it.
type Keyed[R key.Request] struct {
	Policy headgate.Policy
	Key    *key.Key[R]
}

// BindAll binds all policies of one middleware or service. It returns the errors of
// [headgate.New], [Check] and [ClaimFunctions].
func BindAll[R key.Request](store headgate.Store, all []Keyed[R], invalid error) (charges []Charge, err error) {
	charges, binder := make([]Charge, len(all)), Binder{Store: store}
	for i, c := range all {
		if charges[i], err = binder.Bind(c.Policy, c.Key.Kind()); err != nil {
			return nil, fmt.Errorf("charge %d: %w", i+1, err)
		}
	}
	if err := Check(all, true, invalid); err != nil {
		return nil, err
	}
	return charges, ClaimFunctions(store, all, true, invalid)
}

// Check returns an error if all charges together have more limits than one request may
// have, or if policies share state but have different keys. The errors match invalid.
// kinds must be true if policies without a name have a separate state for each kind of
// key.
func Check[R key.Request](all []Keyed[R], kinds bool, invalid error) error {
	limits := 0
	for i, c := range all {
		if limits += len(c.Policy.Limits); limits > headgate.MaxLimits {
			return fmt.Errorf("%w: more than %d limits in all charges together", invalid, headgate.MaxLimits)
		}
		if j := slices.IndexFunc(all[:i], func(o Keyed[R]) bool { return c.mixes(o, kinds) }); j >= 0 {
			return fmt.Errorf("%w: the policies of charges %d and %d are the same and their keys are not, so the keys of one"+
				" could spend the budgets of the other; give each policy a name of its own", invalid, j+1, i+1)
		}
	}
	return nil
}

// mixes reports whether c and o have different keys but use the same state.
func (c Keyed[R]) mixes(o Keyed[R], kinds bool) bool {
	if c.Key.Equal(o.Key) || kinds && c.Policy.Name == "" && c.Key.Kind() != o.Key.Kind() {
		return false
	}
	scopes := root.Rules(o.Policy)
	return slices.ContainsFunc(root.Rules(c.Policy), func(r headgate.Rule) bool {
		return slices.ContainsFunc(scopes, func(s headgate.Rule) bool { return r.Scope == s.Scope })
	})
}

// Fields returns the limits in the form for the header fields.
func (c *Charge) Fields() []httpfields.Limit {
	limits := make([]httpfields.Limit, len(c.Limits))
	for i, l := range c.Limits {
		limits[i] = httpfields.Limit{Name: l.Name, Limit: l.Rule.Limit, Algorithm: l.Rule.Algorithm, Capacity: l.Bound.Limit()}
	}
	return limits
}
