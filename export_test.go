package headgate

// Lines is the number of keys that somebody waits for.
func (l *Limiter) Lines() int {
	l.waiters.mu.Lock()
	defer l.waiters.mu.Unlock()
	return len(l.waiters.lines)
}
