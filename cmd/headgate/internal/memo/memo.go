// Package memo remembers what was made from a text that a stranger sent, within a bound.
package memo

import "sync"

// Map remembers at most a fixed number of values. When it is full it forgets all of them and begins again: whoever sends
// ever new keys costs everybody a rebuild now and then, and never memory. It may be used concurrently.
type Map[K comparable, V any] struct {
	most   int
	mu     sync.RWMutex
	values map[K]V
}

// New makes a Map of at most most values.
func New[K comparable, V any](most int) *Map[K, V] {
	return &Map[K, V]{most: most, values: make(map[K]V)}
}

// Get finds what [Map.Put] kept under k. It allocates nothing.
func (m *Map[K, V]) Get(k K) (V, bool) {
	m.mu.RLock()
	v, ok := m.values[k]
	m.mu.RUnlock()
	return v, ok
}

// Put keeps v under k, unless another goroutine came first, and returns the one that is kept. The map retains k.
func (m *Map[K, V]) Put(k K, v V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first, ok := m.values[k]; ok {
		return first
	}
	if len(m.values) >= m.most {
		clear(m.values)
	}
	m.values[k] = v
	return v
}

// Len is how many values are kept now.
func (m *Map[K, V]) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.values)
}
