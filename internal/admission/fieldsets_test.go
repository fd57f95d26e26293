package admission_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/memstore"
)

// Every combination of charges has the fields of its own charges, also when more are used
// than are kept.
func TestFieldSets(t *testing.T) {
	t.Parallel()
	w, err := httpfields.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	binder := admission.Binder{Store: memstore.New(nil)}
	var charges []admission.Charge
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		p := headgate.MustPolicy("5/1m")
		p.Name = name
		c, err := binder.Bind(p, "")
		if err != nil {
			t.Fatal(err)
		}
		charges = append(charges, c)
	}
	sets := admission.NewFieldSets(w, charges)
	for range 2 {
		for mask := uint32(1); mask < 1<<len(charges); mask++ {
			set, n := sets.Of(mask), 0
			for i, c := range charges {
				if mask&(1<<i) == 0 {
					continue
				}
				if got := set.Name(n); got != c.Policy {
					t.Errorf("mask %b, limit %d: got %q want %q", mask, n, got, c.Policy)
				}
				n++
			}
		}
	}
	kept := sets.Of(1)
	if sets.Of(1) != kept {
		t.Error("a combination that was used first: got it made twice want it kept")
	}
}
