package memstore

// holdKeyIndex finds the keys with open holds by their digests. It is a hash table with
// linear probing. A key that holds and commits again and again is added and removed each
// time, which costs several times as much in a map.
type holdKeyIndex struct {
	table []*heldKey // the length is 0 or a power of two; at most three quarters are used
	count int
}

// get returns the key with digest d, or nil.
func (x *holdKeyIndex) get(d digest) *heldKey {
	if len(x.table) == 0 {
		return nil
	}
	return x.table[x.position(d)]
}

// position returns the position of the key with digest d, or the free position for it.
// Digests are uniformly distributed, so lo is its own hash.
func (x *holdKeyIndex) position(d digest) uint64 {
	mask := uint64(len(x.table) - 1)
	i := d.lo & mask
	for x.table[i] != nil && x.table[i].digest != d {
		i = (i + 1) & mask
	}
	return i
}

// add adds a key, whose digest must not be in the index.
func (x *holdKeyIndex) add(k *heldKey) {
	if x.count >= len(x.table)/4*3 {
		x.grow()
	}
	x.table[x.position(k.digest)] = k
	x.count++
}

func (x *holdKeyIndex) grow() {
	keys := x.table
	x.table = make([]*heldKey, max(8, 2*len(keys)))
	for _, k := range keys {
		if k != nil {
			x.table[x.position(k.digest)] = k
		}
	}
}

// remove removes the key with digest d. The keys behind it move up, so that a search does
// not end before them.
func (x *holdKeyIndex) remove(d digest) {
	mask := uint64(len(x.table) - 1)
	free := x.position(d)
	for i := (free + 1) & mask; x.table[i] != nil; i = (i + 1) & mask {
		if home := x.table[i].digest.lo & mask; (i-home)&mask >= (i-free)&mask {
			x.table[free], free = x.table[i], i
		}
	}
	x.table[free] = nil
	x.count--
}

// all yields every key. The index must not change meanwhile.
func (x *holdKeyIndex) all(yield func(*heldKey) bool) {
	for _, k := range x.table {
		if k != nil && !yield(k) {
			return
		}
	}
}
