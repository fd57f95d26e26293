package headgate

// Lines is the number of keys that somebody waits for.
func (l *Limiter) Lines() int {
	l.queues.mu.Lock()
	defer l.queues.mu.Unlock()
	return len(l.queues.queues)
}
