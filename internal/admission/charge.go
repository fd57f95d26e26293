package admission

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/headgate/headgate"
)

// Limit is one limit of a policy, bound to a store.
type Limit struct {
	Name  string // what clients know it by
	Rule  headgate.Rule
	Bound headgate.Bound
}

// Charge is a policy, bound to a store. It does not change once made.
type Charge struct {
	Policy string // its name, for observers
	Limits []Limit
	Queues bool // its limits have queues
}

// Binder binds the policies of one caller to a store.
type Binder struct {
	Store   headgate.Store
	unnamed int // limits of policies without a name, so far
}

// Bind binds a policy, and refuses what [headgate.New] refuses. kind is the kind of key that
// the caller uses for the policy: a policy without a name counts apart for each kind, or one
// kind of key could spend the budgets of another. kind is empty for addresses, so that a
// [headgate.Limiter] whose keys are addresses shares the state.
func (b *Binder) Bind(policy headgate.Policy, kind string) (Charge, error) {
	if b.Store == nil {
		return Charge{}, fmt.Errorf("%w: no store was given; memstore.New(nil) makes the embedded one", headgate.ErrInvalidPolicy)
	}
	if err := policy.Validate(); err != nil {
		return Charge{}, err
	}
	c := Charge{Policy: policy.Name, Queues: policy.Algorithm.Queues()}
	for _, rule := range policy.Rules() {
		name := rule.Name
		if policy.Name == "" {
			name = b.defaultName()
		}
		if policy.Name == "" && kind != "" {
			rule.Scope += " by " + kind
		}
		bound, err := b.Store.Bind(rule)
		if err != nil {
			return Charge{}, err
		}
		c.Limits = append(c.Limits, Limit{name, rule, bound})
	}
	return c, nil
}

// defaultName returns "default", then "default-2" and so on.
func (b *Binder) defaultName() string {
	if b.unnamed++; b.unnamed == 1 {
		return "default"
	}
	return "default-" + strconv.Itoa(b.unnamed)
}

// Shares reports whether two charges share state. They must then have the same key.
func (c *Charge) Shares(other *Charge) bool {
	return slices.ContainsFunc(c.Limits, func(l Limit) bool {
		return slices.ContainsFunc(other.Limits, func(o Limit) bool { return l.Rule.Scope == o.Rule.Scope })
	})
}
