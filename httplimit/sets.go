package httplimit

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/httpfields"
)

// mostSets bounds how many combinations of charges have their header fields kept ready.
const mostSets = 256

// fieldSets has the header fields of each combination of charges that was met: bit i stands for charge i. Reading takes no lock.
type fieldSets struct {
	writer  *httpfields.Writer
	charges []charge
	whole   uint32 // all charges
	all     *httpfields.Set
	others  atomic.Pointer[map[uint32]*httpfields.Set]
	mu      sync.Mutex // held to add to others
}

func (f *fieldSets) init(w *httpfields.Writer, charges []charge) {
	f.writer, f.charges = w, charges
	f.whole = 1<<len(charges) - 1
	f.all = f.make(f.whole)
	f.others.Store(&map[uint32]*httpfields.Set{})
}

// of is the set for the charges in mask, of which there is at least one.
func (f *fieldSets) of(mask uint32) *httpfields.Set {
	if mask == f.whole {
		return f.all
	}
	if s, ok := (*f.others.Load())[mask]; ok {
		return s
	}
	return f.add(mask)
}

// add makes the set for mask and keeps it while there is room.
func (f *fieldSets) add(mask uint32) *httpfields.Set {
	s := f.make(mask)
	f.mu.Lock()
	defer f.mu.Unlock()
	known := *f.others.Load()
	if len(known) < mostSets {
		known = maps.Clone(known)
		known[mask] = s
		f.others.Store(&known)
	}
	return s
}

func (f *fieldSets) make(mask uint32) *httpfields.Set {
	var limits []httpfields.Limit
	for ; mask != 0; mask &= mask - 1 {
		limits = append(limits, f.charges[bits.TrailingZeros32(mask)].fields()...)
	}
	return f.writer.Set(limits...)
}
