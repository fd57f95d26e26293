package admission

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/memo"
)

// Limits on what is kept of charges whose limits depend on the request.
const (
	maxVariants     = 1024
	maxVariantParts = 8 // charges of a request whose header fields are kept
)

// Variants has the charges with other limits for one policy. It may be used concurrently.
type Variants struct {
	store  headgate.Store
	policy headgate.Policy
	kind   string
	base   *Charge
	known  *memo.Lists[headgate.Limit, *Charge]
}

// NewVariants returns the variants of base, which policy was bound to, with the kind of
// its key. It returns an error that matches invalid if the policy has no name, because
// its state would then depend on its limits.
func NewVariants(store headgate.Store, policy headgate.Policy, kind string, base *Charge, invalid error) (*Variants, error) {
	if policy.Name == "" {
		return nil, fmt.Errorf("%w: a charge with Limits has a policy without a name, so the limits would not share state; "+
			"name it with headgate.MustNamedPolicy", invalid)
	}
	return &Variants{store, policy, kind, base, memo.NewLists[headgate.Limit, *Charge](maxVariants, hashLimit)}, nil
}

// Of returns the charge with the given limits, or the base if there are none. It
// allocates nothing for at most four limits that were used before. The error is that of
// [headgate.New].
func (v *Variants) Of(limits []headgate.Limit) (*Charge, error) {
	if len(limits) == 0 {
		return v.base, nil
	}
	if known, ok := v.known.Get(limits); ok {
		return known, nil
	}
	made, err := v.bind(limits)
	if err != nil {
		return nil, err
	}
	return v.known.Put(limits, made), nil
}

func hashLimit(l headgate.Limit) uint64 { return uint64(l.Rate)*31 + uint64(l.Period) }

func (v *Variants) bind(limits []headgate.Limit) (*Charge, error) {
	policy, binder := v.policy, Binder{Store: v.store}
	policy.Limits = limits
	made, err := binder.Bind(policy, v.kind)
	return &made, err
}

// partsKey has the charges of a request.
type partsKey [maxVariantParts]*Charge

// OfParts returns the set for the charges of a request, in their order.
func (f *FieldSets) OfParts(parts []Part) *httpfields.Set {
	var k partsKey
	if len(parts) > maxVariantParts {
		return f.makeOf(parts)
	}
	for i := range parts {
		k[i] = parts[i].Charge
	}
	if known, ok := f.variants.Get(k); ok {
		return known
	}
	return f.variants.Put(k, f.makeOf(parts))
}

func (f *FieldSets) makeOf(parts []Part) *httpfields.Set {
	var limits []httpfields.Limit
	for i := range parts {
		limits = append(limits, parts[i].Charge.Fields()...)
	}
	return f.writer.Set(limits...)
}
