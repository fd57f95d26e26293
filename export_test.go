package headgate

// WaitingKeys returns the number of keys that have waiters.
func (l *Limiter) WaitingKeys() int {
	l.queues.mu.Lock()
	defer l.queues.mu.Unlock()
	return len(l.queues.queues)
}

// Variants returns the number of limiters that WithLimits keeps.
func (l *Limiter) Variants() int { return l.variants.Len() }
