package admission

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/memo"
)

// maxSets is the maximum number of combinations of charges for which the header fields
// are stored.
const maxSets = 256

// FieldSets has the header fields for each combination of charges. They are built when
// a combination first occurs. FieldSets may be used concurrently, and reading takes no
// lock.
type FieldSets struct {
	writer  *httpfields.Writer
	charges []Charge
	all     *httpfields.Set // for all charges together
	others  atomic.Pointer[map[uint32]*httpfields.Set]
	mu      sync.Mutex // must be held to add to others

	variants *memo.Map[partsKey, *httpfields.Set]
}

// NewFieldSets returns the sets for at most 32 charges.
func NewFieldSets(w *httpfields.Writer, charges []Charge) *FieldSets {
	f := &FieldSets{writer: w, charges: charges, variants: memo.New[partsKey, *httpfields.Set](maxVariants)}
	if len(charges) > 0 {
		f.all = f.make(1<<len(charges) - 1)
	}
	f.others.Store(&map[uint32]*httpfields.Set{})
	return f
}

// Of returns the set for the charges in mask: bit i is set for charge i. At least one
// bit must be set.
func (f *FieldSets) Of(mask uint32) *httpfields.Set {
	if mask == 1<<len(f.charges)-1 {
		return f.all
	}
	if s, ok := (*f.others.Load())[mask]; ok {
		return s
	}
	return f.add(mask)
}

// add builds the set for mask, and stores it unless there are already maxSets sets.
func (f *FieldSets) add(mask uint32) *httpfields.Set {
	s := f.make(mask)
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := *f.others.Load(); len(known) < maxSets {
		known = maps.Clone(known)
		known[mask] = s
		f.others.Store(&known)
	}
	return s
}

func (f *FieldSets) make(mask uint32) *httpfields.Set {
	var limits []httpfields.Limit
	for ; mask != 0; mask &= mask - 1 {
		limits = append(limits, f.charges[bits.TrailingZeros32(mask)].Fields()...)
	}
	return f.writer.Set(limits...)
}
