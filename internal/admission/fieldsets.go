package admission

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/httpfields"
)

// maxSets bounds how many combinations of charges have their header fields kept ready.
const maxSets = 256

// FieldSets has the header fields of each combination of charges, made when a combination
// first occurs. It may be used concurrently, and reading takes no lock.
type FieldSets struct {
	writer  *httpfields.Writer
	charges []Charge
	all     *httpfields.Set // of all charges
	others  atomic.Pointer[map[uint32]*httpfields.Set]
	mu      sync.Mutex // held to add to others
}

// NewFieldSets returns the sets of at most 32 charges.
func NewFieldSets(w *httpfields.Writer, charges []Charge) *FieldSets {
	f := &FieldSets{writer: w, charges: charges}
	if len(charges) > 0 {
		f.all = f.make(1<<len(charges) - 1)
	}
	f.others.Store(&map[uint32]*httpfields.Set{})
	return f
}

// Of returns the set of the charges whose bits are set in mask, of which there is at
// least one: bit i is charge i.
func (f *FieldSets) Of(mask uint32) *httpfields.Set {
	if mask == 1<<len(f.charges)-1 {
		return f.all
	}
	if s, ok := (*f.others.Load())[mask]; ok {
		return s
	}
	return f.add(mask)
}

// add makes the set for mask and keeps it while there is room.
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
