// Package memo caches values that are computed from client input, with a fixed maximum
// number of values.
package memo

import "sync"

// Map caches at most a fixed number of values. When it is full, it drops all values:
// clients that send many different keys therefore cause recomputation, but never more
// memory use. A Map may be used concurrently.
type Map[K comparable, V any] struct {
	max    int
	mu     sync.RWMutex
	values map[K]V
}

// New returns an empty Map for at most capacity values.
func New[K comparable, V any](capacity int) *Map[K, V] {
	return &Map[K, V]{max: capacity, values: make(map[K]V)}
}

// Get returns the value that [Map.Put] stored for k, and whether there is one. It does
// not allocate.
func (m *Map[K, V]) Get(k K) (V, bool) {
	m.mu.RLock()
	v, ok := m.values[k]
	m.mu.RUnlock()
	return v, ok
}

// Put stores v for k, unless there is already a value for k, and returns the stored
// value. The map retains k.
func (m *Map[K, V]) Put(k K, v V) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first, ok := m.values[k]; ok {
		return first
	}
	if len(m.values) >= m.max {
		clear(m.values)
	}
	m.values[k] = v
	return v
}

// Len returns the number of stored values.
func (m *Map[K, V]) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.values)
}
