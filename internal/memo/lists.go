package memo

import (
	"slices"
	"sync/atomic"
)

const (
	maxListed = 4  // maximum length of a list whose value is cached
	slots     = 64 // number of lists that are found without a lock
)

// Lists caches values by lists of at most four elements, and at most a fixed number of
// values. It may be used concurrently.
type Lists[E comparable, V any] struct {
	hash   func(E) uint64
	recent [slots]atomic.Pointer[listed[E, V]]
	all    *Map[[maxListed]E, *listed[E, V]]
}

type listed[E, V any] struct {
	list  []E
	value V
}

// NewLists returns an empty cache for at most capacity values. The function hash should
// return different numbers for different elements; the numbers may be equal.
func NewLists[E comparable, V any](capacity int, hash func(E) uint64) *Lists[E, V] {
	return &Lists[E, V]{hash: hash, all: New[[maxListed]E, *listed[E, V]](capacity)}
}

// Get returns the value that [Lists.Put] stored for list, and whether there is one. It
// does not allocate and does not retain list. For the lists that are used often, it takes
// no lock.
func (c *Lists[E, V]) Get(list []E) (value V, ok bool) {
	slot := c.slotOf(list)
	if l := slot.Load(); l != nil && slices.Equal(l.list, list) {
		return l.value, true
	}
	if len(list) > maxListed {
		return value, false
	}
	var k [maxListed]E
	copy(k[:], list)
	l, ok := c.all.Get(k)
	if !ok || len(l.list) != len(list) {
		return value, false
	}
	slot.Store(l)
	return l.value, true
}

// Put stores a value for list, unless there is already one or list has more than four
// elements, and returns the stored value. It does not retain list.
func (c *Lists[E, V]) Put(list []E, value V) V {
	if len(list) > maxListed {
		return value
	}
	var k [maxListed]E
	copy(k[:], list)
	stored := c.all.Put(k, &listed[E, V]{slices.Clone(list), value})
	if len(stored.list) != len(list) { // a list that ends in zero values
		return value
	}
	return stored.value
}

// Len returns the number of values that Put has stored.
func (c *Lists[E, V]) Len() int { return c.all.Len() }

// slotOf returns the slot for a list.
func (c *Lists[E, V]) slotOf(list []E) *atomic.Pointer[listed[E, V]] {
	const prime = 0x9e3779b97f4a7c15
	h := uint64(len(list))
	for _, e := range list {
		h = (h ^ c.hash(e)) * prime
	}
	return &c.recent[h>>58]
}
